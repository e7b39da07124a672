// From the cells of a row to the numbers that an estimator takes: probprop/table/encoding.py. A cell is a number, true or false, a text, a date as text; null where it is not known.

const DAY = 86_400_000; // milliseconds
const ISO = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(\.\d+)?)?)?$/;

// Positions in the year, in the week, which begins on Monday, and in the day, from 0 to 1.
const CYCLES = {
  season: (date) => {
    const [start, end] = [0, 1].map((k) => Date.UTC(date.getUTCFullYear() + k, 0));
    return (date - start) / (end - start);
  },
  weekday: (date) => ((date.getUTCDay() + 6) % 7) / 7,
  hour: (date) => (((date % DAY) + DAY) % DAY) / DAY,
};

// The inputs of a date: the year with its fraction, and a sine and a cosine for each cycle.
function inputsOf(date, parts) {
  const angles = parts.slice(1).map((part) => 2 * Math.PI * CYCLES[part](date));
  const waves = angles.flatMap((angle) => [Math.sin(angle), Math.cos(angle)]);
  return [date.getUTCFullYear() + CYCLES.season(date), ...waves];
}

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

// X of one row; NaN where something is not known. `columns` have the kind of each column, in the order
// of the cells, and where its numbers begin.
export function encodeCells(cells, columns, nFeatures, takesGaps) {
  const x = new Float64Array(nFeatures).fill(NaN);
  columns.forEach((column, i) => {
    const cell = cells[i] ?? null;
    if (column.kind === "text") {
      let place = column.categories.indexOf(cell ?? "(missing)");
      if (place < 0 && cell !== null) place = column.categories.indexOf("(other)");
      const value = place < 0 && takesGaps ? NaN : 0;
      x.fill(value, column.at, column.at + column.categories.length);
      if (place >= 0) x[column.at + place] = 1;
      const rank = column.ranks.indexOf(cell);
      if (column.ranks.length) x[column.at + column.categories.length] = rank < 0 ? NaN : rank;
      const known = column.known.indexOf(cell ?? "(missing)");
      const means = column.means.map((mean) => mean.at(known)); // the last one of all samples
      x.set(means, column.at + column.size - means.length);
    } else if (column.kind === "date") {
      const date = moment(cell);
      if (date) x.set(inputsOf(date, column.parts), column.at);
    } else {
      x[column.at] = cell === null ? NaN : Number(cell);
      if (column.size > 1) x[column.at + 1] = Number(cell === null); // is it missing?
    }
  });
  return x;
}
