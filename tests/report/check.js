// Looks at a report's page as a browser shows it, and tells the window around it what is wrong.
(function () {
  'use strict';
  var wrong = [];

  function say(text) {
    if (wrong.length < 5) {
      wrong.push(text);
    }
  }

  function visible(element) {
    return element.getBoundingClientRect().width > 0;
  }

  function checkText(chart, svg) {
    var frame = svg.getBoundingClientRect();
    var scale = frame.width / svg.viewBox.baseVal.width;
    var boxes = [];
    svg.querySelectorAll('text').forEach(function (text) {
      var box = text.getBoundingClientRect();
      var size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (text.textContent.trim() === '') {
        return;
      }
      if (size < 11) {
        say(chart + ': "' + text.textContent + '" is ' + size.toFixed(1) + ' px');
      }
      if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 ||
          box.top < frame.top - 0.5 || box.bottom > frame.bottom + 0.5) {
        say(chart + ': "' + text.textContent + '" is clipped');
      }
      boxes.forEach(function (other) {
        var width = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        var height = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        if (width > 1 && height > 2) {
          say(chart + ': "' + text.textContent + '" lies over "' + other.text + '"');
        }
      });
      boxes.push({ box: box, text: text.textContent });
    });
    if (boxes.length < 5) {
      say(chart + ': has hardly any text');
    }
  }

  // Without colours a series is known by its points, a line by its dashes as well.
  function checkForms(chart, svg) {
    var colours = {}, forms = {}, dashes = {};
    svg.querySelectorAll('.point').forEach(function (point) {
      var form = point.getAttribute('data-form'), colour = point.getAttribute('stroke');
      if (colours[form] !== undefined && colours[form] !== colour) {
        say(chart + ': two series have points of one form');
      }
      colours[form] = colour;
      forms[form] = (forms[form] || 0) + 1;
    });
    if (Object.keys(forms).length === 0 || Object.values(forms).every(function (n) {
      return n < 2; // the one in the legend
    })) {
      say(chart + ': has no points');
    }
    svg.querySelectorAll('path[stroke-width="1.6"], path[stroke-width="2.6"]').forEach(function (path) {
      var dash = path.getAttribute('stroke-dasharray'), colour = path.getAttribute('stroke');
      if (dashes[dash] !== undefined && dashes[dash] !== colour) {
        say(chart + ': two series have lines of one form');
      }
      dashes[dash] = colour;
    });
  }

  function checkFigures() {
    var figures = document.querySelectorAll('figure');
    if (figures.length < 5) {
      say('there are only ' + figures.length + ' figures');
    }
    figures.forEach(function (figure) {
      var shown = Array.prototype.filter.call(figure.querySelectorAll('svg'), visible);
      if (shown.length !== 1) {
        say(figure.id + ': shows ' + shown.length + ' charts');
        return;
      }
      if (shown[0].querySelector('title') === null || shown[0].querySelector('desc') === null) {
        say(figure.id + ': has no text in place of the chart');
      }
      checkText(figure.id, shown[0]);
      checkForms(figure.id, shown[0]);
    });
  }

  function column(table, index) {
    return Array.prototype.map.call(table.tBodies[0].rows, function (row) {
      return row.cells[index].getAttribute('data-v');
    });
  }

  function checkOrder(values, direction) {
    var numbers = values.filter(function (value) { return value !== ''; }).map(Number);
    if (values.indexOf('') >= 0 && values.indexOf('') < numbers.length) {
      say('a missing value is not sorted to the end');
    }
    for (var n = 1; n < numbers.length; n++) {
      if (direction * (numbers[n] - numbers[n - 1]) < 0) {
        say('a table is not sorted');
      }
    }
  }

  function checkSorting() {
    var table = document.querySelector('table.sortable');
    var heading = Array.prototype.find.call(table.tHead.rows[0].cells, function (cell) {
      return cell.textContent.indexOf('Time') === 0;
    });
    var button = heading.querySelector('button');
    var before = column(table, heading.cellIndex).join();
    if (button === null) {
      say('a heading cannot be pressed');
      return;
    }
    button.focus();
    if (document.activeElement !== button) {
      say('a heading cannot be reached by the keyboard');
    }
    [1, -1].forEach(function (direction) {
      button.click();
      if (heading.getAttribute('aria-sort') !== (direction > 0 ? 'ascending' : 'descending')) {
        say('a heading does not say how its column is sorted');
      }
      checkOrder(column(table, heading.cellIndex), direction);
      if (column(table, heading.cellIndex).join() === before) {
        say('sorting changes nothing');
      }
    });
  }

  function luminance(colour) {
    var parts = colour.match(/[\d.]+/g).slice(0, 3).map(function (part) {
      var c = part / 255;
      return c <= 0.03928 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  }

  function background(element) {
    for (; element !== null; element = element.parentElement) {
      var colour = getComputedStyle(element).backgroundColor;
      if (!/^rgba\(.*, 0\)$/.test(colour) && colour !== 'transparent') {
        return colour;
      }
    }
    return 'rgb(255, 255, 255)';
  }

  function checkContrast() {
    document.querySelectorAll('body *').forEach(function (element) {
      var own = Array.prototype.some.call(element.childNodes, function (node) {
        return node.nodeType === Node.TEXT_NODE && node.textContent.trim() !== '';
      });
      if (!own || element.closest('svg, script, style') !== null || !visible(element)) {
        return;
      }
      var a = luminance(getComputedStyle(element).color), b = luminance(background(element));
      if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) {
        say('"' + element.textContent.slice(0, 30) + '" is hard to see');
      }
    });
  }

  function checkStructure() {
    var ids = {}, level = 0;
    if (document.documentElement.scrollWidth > window.innerWidth) {
      say('the page is ' + document.documentElement.scrollWidth + ' px wide');
    }
    document.querySelectorAll('[id]').forEach(function (element) {
      if (ids[element.id]) {
        say('two elements are called ' + element.id);
      }
      ids[element.id] = true;
    });
    document.querySelectorAll('[href^="#"], [aria-labelledby]').forEach(function (element) {
      var names = element.getAttribute('href') || element.getAttribute('aria-labelledby');
      names.replace('#', '').split(' ').forEach(function (name) {
        if (!ids[name]) {
          say('nothing is called ' + name);
        }
      });
    });
    document.querySelectorAll('h1, h2, h3, h4').forEach(function (heading) {
      var next = Number(heading.tagName[1]);
      if (next > level + 1) {
        say('a heading is missing before "' + heading.textContent + '"');
      }
      level = next;
    });
    if (document.querySelector('[src], link, object, embed, a:not([href^="#"])') !== null ||
        /url\(|@import/.test(document.querySelector('style').textContent)) {
      say('the page loads something');
    }
  }

  window.addEventListener('load', function () {
    try {
      checkStructure();
      checkContrast();
      checkFigures();
      checkSorting();
    } catch (error) {
      say(String(error));
    }
    window.parent.postMessage(window.name + ': ' + (wrong.join('; ') || 'fine'), '*');
  });
})();
