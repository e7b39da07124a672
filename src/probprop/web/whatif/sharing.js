// The row as a line for `probprop predict`, and the state as the end of a link.

const quoted = (text) => (/[",\n\r]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

const ANOTHER = "(another)"; // a category that no model knows

function cellText(cell, column, takesGaps) {
  if (cell === null) return column.kind === "text" && !takesGaps ? ANOTHER : "";
  if (typeof cell === "boolean") return cell ? "True" : "False";
  return String(cell);
}

// A header and a line of CSV.
export function csv(cells, columns, takesGaps) {
  const header = columns.map((column) => quoted(column.name)).join(",");
  const texts = columns.map((column, i) => quoted(cellText(cells[i], column, takesGaps)));
  return `${header}\n${texts.length === 1 && !texts[0] ? '""' : texts.join(",")}\n`;
}

// The cell that a text means; undefined if it is not a value of this column.
export function parsed(text, column, takesGaps) {
  if (text === "" || (text === ANOTHER && column.kind === "text")) {
    return takesGaps || column.kind === "text" ? null : undefined;
  }
  if (column.kind === "number") {
    const value = Number(text);
    return Number.isFinite(value) ? value : undefined;
  }
  if (column.kind === "boolean") return { true: true, false: false }[text.toLowerCase()];
  if (column.kind === "text") return column.categories.includes(text) ? text : undefined;
  return /^\d{4}-\d{2}-\d{2}/.test(text) ? text : undefined;
}

export function toHash(cells, columns, along, takesGaps) {
  const pairs = columns.map((column, i) => [
    `c.${column.name}`,
    cellText(cells[i], column, takesGaps),
  ]);
  return `#what-if&${new URLSearchParams([["along", columns[along].name], ...pairs])}`;
}

// What a link says of the state: cells, undefined where it says nothing, and the column to go along.
export function fromHash(hash, columns, takesGaps) {
  if (!hash.startsWith("#what-if&")) return null;
  const pairs = new URLSearchParams(hash.slice("#what-if&".length));
  const cells = columns.map((column) => {
    const text = pairs.get(`c.${column.name}`);
    return text === null ? undefined : parsed(text, column, takesGaps);
  });
  return { cells, along: columns.findIndex((column) => column.name === pairs.get("along")) };
}
