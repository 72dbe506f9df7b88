'use strict';

// Charts, drawn from the tables beside them: the first column names rows, others are series.
// figure.chart says how:
//   kind rows: a point for each cell, with its range if it has one; axis, logarithmic, mark (where a
//     line stands), lane (height of a series in a row), styles (a number for each series)
//   kind panels: a panel for each of the panels, whose name is in the second column, with the roofs
//     fma, half (GFLOP/s) and read (GB/s); x and y name the axes, x_column and first_column say where
//     places and series are, lines whether points of a series are joined
var drawChart = (function () {
  // Colours after M. Okabe, K. Ito (2008), two of them darkened so that thin lines show on white;
  // neighbours differ in lightness, in the form of their points and in their dashes.
  var styles = [
    ['#0072B2', 'circle', '', 2.6], ['#0072B2', 'hollow circle', '14 6', 1.6],
    ['#D55E00', 'up', '4 4', 1.6], ['#009E73', 'square', '16 5 3 5', 1.6],
    ['#A8548A', 'diamond', '7 7', 1.6], ['#000000', 'down', '20 8', 1.6],
    ['#A66F00', 'hollow up', '2 5', 1.6], ['#2F86BF', 'hollow square', '13 3 3 3 3 3', 1.6],
    ['#5B5B5B', 'hollow diamond', '9 4', 1.6], ['#D55E00', 'hollow down', '5 2 2 2', 1.6],
    ['#009E73', 'cross', '22 5 5 5', 1.6], ['#A8548A', 'plus', '2 2', 1.6]
  ].map(function (style) {
    return { colour: style[0], form: style[1], dashes: style[2], width: style[3] };
  });
  var forms = {
    circle: 'M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z', up: 'M0 -5L4.6 3.4H-4.6z',
    down: 'M0 5L4.6 -3.4H-4.6z', square: 'M-3.6 -3.6h7.2v7.2h-7.2z',
    diamond: 'M0 -5L4.4 0L0 5L-4.4 0z', cross: 'M-4 -4L4 4M-4 4L4 -4', plus: 'M-5 0H5M0 -5V5'
  };
  var INK = '#1B1F24', GREY = '#57606A', GRID = '#D9DEE3', TINT = '#F3F5F7';
  var SAMPLE = 36; // room for a point and its line in a legend
  var PANEL_HEIGHT = 250, MOST_LABEL = 23; // the latter times the font's size
  var ruler = document.createElement('canvas').getContext('2d');

  function add(canvas, name, attributes, text) {
    var made = document.createElementNS('http://www.w3.org/2000/svg', name);
    Object.keys(attributes).forEach(function (key) {
      made.setAttribute(key, attributes[key]);
    });
    if (text !== undefined) {
      made.textContent = text;
    }
    canvas.svg.appendChild(made);
  }

  function line(canvas, x1, y1, x2, y2, colour, width) {
    add(canvas, 'line', { x1: x1, y1: y1, x2: x2, y2: y2, stroke: colour, 'stroke-width': width });
  }

  function write(canvas, text, x, y, anchor, turned) {
    add(canvas, 'text', {
      'text-anchor': anchor, 'dominant-baseline': 'central', fill: INK,
      transform: 'translate(' + x + ' ' + y + ')' + (turned ? ' rotate(-90)' : '')
    }, text);
  }

  function widthOf(canvas, text) {
    ruler.font = canvas.font + 'px sans-serif';
    return ruler.measureText(text).width;
  }

  // The text, or its beginning and end around an ellipsis so that it is no wider.
  function fit(canvas, text, width) {
    var all = Array.from(text), cut = text;
    for (var most = all.length - 1; most > 1 && widthOf(canvas, cut) > width; most--) {
      var tail = Math.floor((most - 1) / 3);
      cut = all.slice(0, most - 1 - tail).join('') + '\u2026' + all.slice(all.length - tail).join('');
    }
    return cut;
  }

  // Width of so many digits, generously.
  function digits(canvas, count) {
    return 0.66 * canvas.font * count;
  }

  function point(canvas, style, x, y) {
    var hollow = /hollow/.test(style.form);
    add(canvas, 'path', {
      'class': 'point', 'data-form': style.form, d: forms[style.form.replace('hollow ', '')],
      transform: 'translate(' + x + ' ' + y + ')', stroke: style.colour, 'stroke-width': 1.4,
      fill: hollow ? '#fff' : style.colour
    });
  }

  function path(canvas, places, colour, width, dashes) {
    add(canvas, 'path', {
      d: 'M' + places.map(function (place) { return place.join(' '); }).join('L'), fill: 'none',
      stroke: colour, 'stroke-width': width, 'stroke-dasharray': dashes || 'none'
    });
  }

  // At the top; returns where it ends. Lines are filled from the left.
  function legend(canvas, series, joined) {
    var x = 8, y = canvas.font;
    series.forEach(function (one) {
      var name = fit(canvas, one.name, canvas.width - SAMPLE - 16);
      var width = SAMPLE + widthOf(canvas, name);
      if (x > 8 && x + width > canvas.width) {
        x = 8;
        y += canvas.font + 8;
      }
      if (joined) {
        path(canvas, [[x, y], [x + 30, y]], one.style.colour, one.style.width, one.style.dashes);
      }
      point(canvas, one.style, x + 15, y);
      write(canvas, name, x + SAMPLE, y, 'start');
      x += width + 16;
    });
    return y + canvas.font;
  }

  function scale(low, high, from, to, logarithmic) {
    var f = logarithmic ? Math.log : Number;
    return function (value) {
      return from + (to - from) * (f(value) - f(low)) / (f(high) - f(low));
    };
  }

  // 1, 2 and 5 times powers of ten, fewer where their labels would touch on an axis of the length.
  function decades(low, high, length, room) {
    var decade = length / Math.max(Math.log10(high / low), 0.01), ticks = [];
    var every = Math.max(1, Math.ceil(room / decade));
    for (var power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      (0.3 * decade >= room ? [1, 2, 5] : [1]).forEach(function (step) {
        var value = step * Math.pow(10, power);
        if (power % every === 0 && value >= low * 0.999 && value <= high * 1.001) {
          ticks.push([value, String(Number(value.toPrecision(3)))]);
        }
      });
    }
    return ticks;
  }

  // Ticks, grid and name of the axis below a field of the frame; `place` is where a value is.
  function axisBelow(canvas, frame, ticks, place, name) {
    ticks.forEach(function (tick) {
      line(canvas, place(tick[0]), frame.top, place(tick[0]), frame.bottom, GRID, 1);
      line(canvas, place(tick[0]), frame.bottom, place(tick[0]), frame.bottom + 4, GREY, 1);
      write(canvas, tick[1], place(tick[0]), frame.bottom + canvas.font, 'middle');
    });
    line(canvas, frame.left, frame.bottom, frame.right, frame.bottom, GREY, 1);
    write(canvas, name, (frame.left + frame.right) / 2, frame.bottom + 2.5 * canvas.font, 'middle');
  }

  // ---- rows of points: labels at the left, or on a phone above their points ----

  // The axis' limits, so that all values and the mark are inside.
  function limits(chart, rows) {
    var low = chart.logarithmic ? 0.5 : 0, high = chart.logarithmic ? 2 : 100;
    rows.forEach(function (row) {
      row.slice(1).forEach(function (cell) {
        if (cell.value !== undefined) {
          high = Math.max(high, (cell.high || cell.value) * (chart.logarithmic ? 1.15 : 1.02));
          low = chart.logarithmic ? Math.min(low, (cell.low || cell.value) / 1.15) : 0;
        }
      });
    });
    return [low, high];
  }

  function even(high) {
    var step = high > 200 ? Math.ceil(high / 500) * 100 : 20, ticks = [];
    for (var value = 0; value <= high; value += step) {
      ticks.push([value, String(value)]);
    }
    return ticks;
  }

  function drawRow(canvas, chart, series, row, top, frame, place) {
    var room = frame.row - frame.offset - (canvas.narrow ? 0 : 5);
    var first = top + frame.offset + (room - chart.lane * series.length) / 2;
    line(canvas, place(chart.mark), top + (canvas.narrow ? frame.offset : 0), place(chart.mark),
      top + frame.row, INK, 1.4);
    write(canvas, frame.labels[row], canvas.narrow ? frame.left + 5 : frame.left - 0.6 * canvas.font,
      top + (canvas.narrow ? 3 + canvas.font / 2 : frame.row / 2), canvas.narrow ? 'start' : 'end');
    series.forEach(function (one, n) {
      var cell = one.cells[row], y = first + chart.lane * (n + 0.5);
      if (cell.low < cell.high) {
        line(canvas, place(cell.low), y, place(cell.high), y, GREY, 1);
      }
    });
    series.forEach(function (one, n) {
      if (one.cells[row].value !== undefined) {
        point(canvas, one.style, place(one.cells[row].value), first + chart.lane * (n + 0.5));
      }
    });
  }

  function drawRows(canvas, figure) {
    var chart = figure.chart, rows = figure.table.rows, ends = limits(chart, rows);
    var series = figure.table.columns.slice(1).map(function (column, n) {
      return {
        name: column.name, style: styles[chart.styles[n] % styles.length],
        cells: rows.map(function (row) { return row[n + 1]; })
      };
    });
    var most = canvas.narrow ? canvas.width - 40 : MOST_LABEL * canvas.font;
    var frame = {
      left: 12, top: legend(canvas, series, false) + 12, right: canvas.width - digits(canvas, 3),
      offset: canvas.narrow ? canvas.font + 8 : 5,
      labels: rows.map(function (row) { return fit(canvas, row[0].text, most); })
    };
    frame.labels.forEach(function (label) {
      frame.left = canvas.narrow ? 12 : Math.max(frame.left, widthOf(canvas, label) + canvas.font);
    });
    frame.row = Math.max(frame.offset + chart.lane * series.length + 5, canvas.font + 10);
    frame.bottom = frame.top + frame.row * rows.length;
    for (var n = 1; n < rows.length; n += 2) {
      add(canvas, 'rect', {
        x: frame.left, y: frame.top + frame.row * n, width: frame.right - frame.left,
        height: frame.row, fill: TINT
      });
    }
    var place = scale(ends[0], ends[1], frame.left, frame.right, chart.logarithmic);
    axisBelow(canvas, frame, chart.logarithmic
      ? decades(ends[0], ends[1], frame.right - frame.left, digits(canvas, 6)) : even(ends[1]),
      place, chart.axis);
    rows.forEach(function (row, n) {
      drawRow(canvas, chart, series, n, frame.top + frame.row * n, frame, place);
    });
    return frame.bottom + 3.6 * canvas.font;
  }

  // ---- panels beside each other, under each other on a phone, all with the same axes ----

  // The points of a panel's series.
  function pointsOf(figure, panel, series) {
    return figure.table.rows.filter(function (row) {
      return row[1].text === panel.name;
    }).map(function (row) {
      return [row[figure.chart.x_column].value, row[figure.chart.first_column + series].value];
    }).filter(function (place) {
      return place[0] > 0 && place[1] > 0;
    });
  }

  // Lengths as labels where there is room, "2k" for 2048; never two that touch.
  function lengths(canvas, points, place) {
    var ticks = [];
    points.map(function (one) { return one[0]; }).sort(function (a, b) {
      return a - b;
    }).forEach(function (length) {
      var last = ticks[ticks.length - 1];
      if (last === undefined || place(length) - place(last[0]) >= digits(canvas, 5)) {
        ticks.push([length, length >= 1024 && length % 1024 === 0 ? length / 1024 + 'k'
          : String(length)]);
      }
    });
    return ticks;
  }

  // The lines under which all results must be.
  function drawRoofs(canvas, panel, ends, x, y) {
    var start = Math.max(ends.left, ends.bottom / panel.read), ridge = panel.fma / panel.read;
    var level = panel.half / panel.read;
    path(canvas, [start, Math.min(Math.max(ridge, start), ends.right), ends.right].map(
      function (at) { return [x(at), y(Math.min(panel.fma, panel.read * at))]; }), INK, 1.8);
    if (panel.half > 0) {
      path(canvas, [Math.max(ends.left, level), Math.max(ends.right, level)].map(function (at) {
        return [x(Math.min(at, ends.right)), y(panel.half)];
      }), INK, 1.4, '6 4');
    }
  }

  function drawPanel(canvas, figure, panel, series, frame, ends) {
    var chart = figure.chart;
    var x = scale(ends.left, ends.right, frame.left, frame.right, true);
    var y = scale(ends.bottom, ends.top, frame.bottom, frame.top, true);
    decades(ends.bottom, ends.top, PANEL_HEIGHT, 2 * canvas.font).forEach(function (tick) {
      line(canvas, frame.left, y(tick[0]), frame.right, y(tick[0]), GRID, 1);
      write(canvas, tick[1], frame.left - 0.5 * canvas.font, y(tick[0]), 'end');
    });
    axisBelow(canvas, frame, chart.lines ? lengths(canvas, ends.points, x)
      : decades(ends.left, ends.right, frame.right - frame.left, digits(canvas, 6)), x, chart.x);
    line(canvas, frame.left, frame.top, frame.left, frame.bottom, GREY, 1);
    write(canvas, chart.y, frame.edge + canvas.font, (frame.top + frame.bottom) / 2, 'middle', true);
    write(canvas, fit(canvas, panel.name, frame.right - frame.left), (frame.left + frame.right) / 2,
      frame.top - canvas.font, 'middle');
    if (panel.fma > 0 && panel.read > 0) {
      drawRoofs(canvas, panel, ends, x, y);
    }
    for (var n = series.length - 1; n >= 0; n--) { // clattn's on top
      var style = series[n].style, places = pointsOf(figure, panel, n).map(function (at) {
        return [x(at[0]), y(at[1])];
      });
      if (chart.lines && places.length > 1) {
        path(canvas, places, style.colour, style.width, style.dashes);
      }
      places.forEach(function (at) { point(canvas, style, at[0], at[1]); });
    }
  }

  // Of both axes, so that all points and all roofs are inside.
  function findEnds(figure, series) {
    var chart = figure.chart, points = [], room = chart.lines ? [1.3, 1.5, 1.5] : [2, 1.5, 1.8];
    var tops = [];
    chart.panels.forEach(function (panel) {
      tops.push(panel.fma || 0, panel.half || 0);
      series.forEach(function (one, n) {
        points = points.concat(pointsOf(figure, panel, n));
      });
    });
    var xs = points.map(function (at) { return at[0]; });
    var ys = points.map(function (at) { return at[1]; });
    return {
      points: points, left: Math.min.apply(null, xs) / room[0],
      right: Math.max.apply(null, xs) * room[0], bottom: Math.min.apply(null, ys) / room[1],
      top: Math.max.apply(null, ys.concat(tops)) * room[2]
    };
  }

  function drawPanels(canvas, figure) {
    var chart = figure.chart, count = chart.panels.length, font = canvas.font;
    var series = figure.table.columns.slice(chart.first_column).map(function (column, n) {
      return { name: column.name, style: styles[n % styles.length] };
    });
    var columns = canvas.narrow ? 1 : count === 2 || count === 4 ? 2 : 3;
    var left = digits(canvas, 6) + 2 * font, column = canvas.width / columns;
    var width = Math.min(column - left - digits(canvas, 2), 640);
    var height = 2.4 * font + PANEL_HEIGHT + 4.2 * font;
    var ends = findEnds(figure, series), top = legend(canvas, series, chart.lines);
    chart.panels.forEach(function (panel, n) {
      var edge = column * (n % columns), head = top + height * Math.floor(n / columns) + 2.4 * font;
      drawPanel(canvas, figure, panel, series, {
        edge: edge, left: edge + left, right: edge + left + width, top: head,
        bottom: head + PANEL_HEIGHT
      }, ends);
    });
    return top + height * Math.ceil(count / columns);
  }

  // The chart as it is for screens and paper, or for phones; ids in it begin with `id`.
  return function (figure, id, narrow) {
    var svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    var canvas = { svg: svg, narrow: narrow, width: narrow ? 330 : 1120, font: narrow ? 13 : 14 };
    svg.setAttribute('role', 'img');
    svg.setAttribute('aria-labelledby', id + '-t ' + id + '-d');
    svg.setAttribute('font-family', 'sans-serif');
    svg.setAttribute('font-size', canvas.font);
    add(canvas, 'title', { id: id + '-t' }, figure.title);
    add(canvas, 'desc', { id: id + '-d' }, figure.description);
    var height = (figure.chart.kind === 'rows' ? drawRows : drawPanels)(canvas, figure);
    svg.setAttribute('viewBox', '0 0 ' + canvas.width + ' ' + Math.ceil(height));
    return svg;
  };
})();
