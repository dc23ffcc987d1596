// Frames of the live view, as service/view/frames.py writes them: a JSON header and columns of numbers, read where they lie.

export type Column = Uint8Array | Uint16Array | Uint32Array | Float32Array;
export interface Frame {
  header: any;
  columns: Record<string, Column>;
}

const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array } as const;

export function decode(buffer: ArrayBuffer): Frame {
  const view = new DataView(buffer);
  if (view.getUint32(0) !== 0x57535631) throw new Error("not a frame of the live view");
  const length = view.getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const columns: Record<string, Column> = {};
  for (const [name, [kind, offset, count]] of Object.entries<[keyof typeof KINDS, number, number]>(header.arrays)) {
    columns[name] = new KINDS[kind](buffer, 8 + length + offset, count);
  }
  return { header, columns };
}

export async function fetchFrame(path: string): Promise<Frame | null> {
  const answer = await fetch(path);
  return answer.ok ? decode(await answer.arrayBuffer()) : null;
}
