
// The page, made of the document in it. Texts of the document become text, never markup.
(function () {
  var figures = 0;

  function make(name, attributes, children) {
    var made = document.createElement(name);
    Object.keys(attributes).forEach(function (key) {
      made.setAttribute(key, attributes[key]);
    });
    [].concat(children).forEach(function (child) {
      made.append(child);
    });
    return made;
  }

  // Every second part of a sentence is stressed.
  function say(parts) {
    return parts.map(function (part, n) {
      return n % 2 === 1 ? make('b', {}, part) : part;
    });
  }

  // ---- tables ----

  // Numbers sort as numbers, words as words; what is missing comes last in both directions.
  function compare(a, b, direction) {
    if (typeof a === 'string') {
      return direction * a.localeCompare(b, 'en', { numeric: true });
    }
    if (isNaN(a) || isNaN(b)) {
      return isNaN(a) - isNaN(b);
    }
    return direction * (a - b);
  }

  function valueOf(cell) {
    if (!cell.classList.contains('n')) {
      return cell.textContent.trim().toLowerCase();
    }
    return cell.dataset.v === '' ? NaN : Number(cell.dataset.v);
  }

  function sort(table, heading) {
    var direction = heading.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
    var body = table.tBodies[0], headings = Array.from(table.tHead.rows[0].cells);
    Array.from(body.rows).map(function (row, index) {
      return { row: row, value: valueOf(row.cells[heading.cellIndex]), index: index };
    }).sort(function (a, b) {
      return compare(a.value, b.value, direction) || a.index - b.index;
    }).forEach(function (entry) {
      body.appendChild(entry.row);
    });
    headings.forEach(function (cell) {
      cell.removeAttribute('aria-sort');
    });
    heading.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
  }

  function cellOf(cell, kind, first) {
    var attributes = first ? { scope: 'row' } : {}, text = cell.text;
    if (kind === 'number' && !first) {
      attributes = { 'class': 'n', 'data-v': cell.value === undefined ? '' : cell.value };
    } else if (kind === 'state') {
      attributes = { 'class': 's-' + cell.text };
      text = make('b', {}, text);
    } else if (kind === 'code') {
      text = make('code', {}, text);
    }
    var made = make(first ? 'th' : 'td', attributes, text);
    (cell.small || []).forEach(function (line) {
      made.append(make('br', {}, []), make('small', {}, line));
    });
    return made;
  }

  function tableOf(data, classes) {
    var columns = data.columns, table = make('table', classes, make('caption', {}, data.caption));
    table.append(make('thead', {}, make('tr', {}, columns.map(function (column, n) {
      var button = make('button', { type: 'button' }, column.name);
      var number = n > 0 && column.kind === 'number';
      var heading = make('th', number ? { scope: 'col', 'class': 'n' } : { scope: 'col' }, button);
      button.addEventListener('click', function () {
        sort(table, heading);
      });
      return heading;
    }))));
    table.append(make('tbody', {}, data.rows.map(function (row) {
      return make('tr', {}, row.map(function (cell, n) {
        return cellOf(cell, columns[n].kind, n === 0);
      }));
    })));
    return table;
  }

  function scrolling(classes, label, table) {
    return make('div', { 'class': classes, role: 'region', tabindex: 0, 'aria-label': label }, table);
  }

  // ---- blocks ----

  // The chart in two sizes, of which one is shown, and its numbers.
  function figureOf(data) {
    var id = 'f' + ++figures, name = 'Figure ' + figures + '. ';
    return [
      make('figure', { id: 'figure-' + figures }, [
        make('figcaption', {}, [make('b', {}, name + data.title + '.'), ' ' + data.caption]),
        make('div', { 'class': 'chart wide' }, drawChart(data, id + 'w', false)),
        make('div', { 'class': 'chart narrow' }, drawChart(data, id + 'n', true))
      ]),
      make('details', {}, [
        make('summary', {}, 'The numbers of figure ' + figures),
        scrolling('scroll', 'Numbers of figure ' + figures, tableOf(data.table, {}))
      ])
    ];
  }

  var makers = {
    heading: function (parts) { return make('h3', {}, say(parts)); },
    text: function (parts) { return make('p', {}, say(parts)); },
    lead: function (parts) { return make('p', { 'class': 'lead' }, say(parts)); },
    list: function (items) {
      return make('ul', {}, items.map(function (parts) { return make('li', {}, say(parts)); }));
    },
    code: function (lines) {
      return make('pre', { tabindex: 0 }, make('code', {}, lines.join('\n') + '\n'));
    },
    columns: function (columns) {
      return make('div', { 'class': 'columns' }, columns.map(function (blocks) {
        return make('div', {}, show(blocks));
      }));
    },
    table: function (data) {
      return scrolling(data.tall ? 'scroll tall' : 'scroll', data.caption,
        tableOf(data, { 'class': 'sortable' }));
    },
    figure: figureOf
  };

  function show(blocks) {
    return [].concat.apply([], blocks.map(function (block) {
      var kind = Object.keys(block)[0];
      return makers[kind](block[kind]);
    }));
  }

  var page = JSON.parse(document.getElementById('document').textContent);
  var header = document.querySelector('header'), links = header.querySelector('nav ul');
  document.title = page.title;
  header.querySelector('h1').textContent = page.title;
  page.sources.forEach(function (parts) {
    header.insertBefore(make('p', { 'class': 'source' }, say(parts)), header.lastChild);
  });
  page.sections.forEach(function (section) {
    links.append(make('li', {}, make('a', { href: '#' + section.id }, section.title)));
    document.querySelector('main').append(make('section', { 'aria-labelledby': section.id },
      [make('h2', { id: section.id }, section.title)].concat(show(section.blocks))));
  });
})();
