/** Sizes in flags: `512KiB`, `64MiB`, `64Mi`, `1GiB`, `1048576`. */

const UNITS: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

/** The size in bytes. @throws when the text is not a size */
export function parseBytes(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*(?:([kmg])i?b?)?$/i.exec(text.trim());
  const unit = UNITS[(match?.[2] ?? '').toLowerCase()];
  const bytes = Math.round(Number(match?.[1]) * (unit ?? NaN));
  if (!(bytes <= Number.MAX_SAFE_INTEGER)) {
    throw new Error(`"${text}" is not a size; write a number and a unit, such as 512KiB, 64MiB or 1GiB`);
  }
  return bytes;
}
