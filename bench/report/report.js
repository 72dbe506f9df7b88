// Tables sort by their headings. Without this script the page is complete, in the order of the run.
(function () {
  'use strict';

  // Numbers sort as numbers, words as words; what is missing comes last in both directions.
  function valueOf(cell) {
    if (!cell.classList.contains('n')) {
      return cell.textContent.trim().toLowerCase();
    }
    var text = cell.hasAttribute('data-v') ? cell.getAttribute('data-v') : cell.textContent;
    return text.trim() === '' ? NaN : Number(text);
  }

  function compare(a, b, direction) {
    if (typeof a === 'string') {
      return direction * a.localeCompare(b, 'en', { numeric: true });
    }
    if (isNaN(a) || isNaN(b)) {
      return isNaN(a) - isNaN(b);
    }
    return direction * (a - b);
  }

  function sort(table, heading) {
    var column = heading.cellIndex;
    var direction = heading.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
    var body = table.tBodies[0];
    var rows = Array.prototype.map.call(body.rows, function (row, index) {
      return { row: row, value: valueOf(row.cells[column]), index: index };
    });
    rows.sort(function (a, b) {
      return compare(a.value, b.value, direction) || a.index - b.index;
    });
    rows.forEach(function (entry) {
      body.appendChild(entry.row);
    });
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell) {
      cell.removeAttribute('aria-sort');
    });
    heading.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
  }

  document.querySelectorAll('table').forEach(function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (heading) {
      var button = document.createElement('button');
      button.type = 'button';
      while (heading.firstChild) {
        button.appendChild(heading.firstChild);
      }
      heading.appendChild(button);
      button.addEventListener('click', function () {
        sort(table, heading);
      });
    });
  });
})();
