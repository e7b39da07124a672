// The tree that probprop/report/live/exported.py packed.

const KINDS = { f8: [Float64Array, 8], f4: [Float32Array, 4], i4: [Int32Array, 4] };

async function inflated(text) {
  const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The bytes of an array, in which all first bytes come first, as numbers of double precision.
function numbers(bytes, kind, start, length) {
  const [Type, size] = KINDS[kind];
  const ordered = new Uint8Array(length * size);
  for (let place = 0; place < size; place += 1) {
    const from = start + place * length;
    for (let i = 0; i < length; i += 1) ordered[i * size + place] = bytes[from + i];
  }
  const values = new Type(ordered.buffer);
  return kind === "f4" ? Float64Array.from(values) : values;
}

export async function unpacked(text, block) {
  const bytes = await inflated(block);
  return JSON.parse(text, (_, node) =>
    node && Array.isArray(node.array) ? numbers(bytes, ...node.array) : node,
  );
}
