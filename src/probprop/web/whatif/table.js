// From the cells of a row to the numbers that an estimator takes: probprop/table/encoding.py and
// dates.py. A cell is a number, true or false, a text, a date as text; null where it is not known.

const DAY = 86_400_000; // milliseconds
const ISO = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(\.\d+)?)?)?$/;

const PARTS = {
  year: (date) => date.getUTCFullYear(),
  month: (date) => date.getUTCMonth() + 1,
  day_of_year: (date) => 1 + Math.floor((date - Date.UTC(date.getUTCFullYear(), 0)) / DAY),
  weekday: (date) => (date.getUTCDay() + 6) % 7, // Monday is 0
  seconds: (date) => (date % DAY) / 1000 + (date < 0 && date % DAY ? DAY / 1000 : 0),
};

// The moment that a text such as 2024-05-31T12:00 names, as the clock at its place shows it; null if
// it names none.
export function moment(text) {
  const found = ISO.exec(text ?? "");
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  const fraction = found[7] ? 1000 * Number(`0${found[7]}`) : 0;
  const date = new Date(Date.UTC(year, month - 1, day, hour, minute, second, fraction));
  const same = date.getUTCMonth() === month - 1 && date.getUTCDate() === day && hour < 24;
  return same && minute < 60 && second < 60 ? date : null;
}

// X of one row; NaN where something is not known. `columns` say what each column holds, in the order
// of the cells, and where its numbers begin.
export function encodeCells(cells, columns, nFeatures, takesGaps) {
  const x = new Float64Array(nFeatures).fill(NaN);
  columns.forEach((column, i) => {
    const cell = cells[i] ?? null;
    if (column.kind === "text") {
      const place = column.categories.indexOf(cell);
      const value = place < 0 && takesGaps ? NaN : 0;
      x.fill(value, column.at, column.at + column.categories.length);
      if (place >= 0) x[column.at + place] = 1;
    } else if (column.kind === "date") {
      const date = moment(cell);
      column.parts.forEach((part, p) => (x[column.at + p] = date ? PARTS[part](date) : NaN));
    } else {
      x[column.at] = cell === null ? NaN : Number(cell);
    }
  });
  return x;
}
