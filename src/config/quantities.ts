const BYTES: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };
const MILLISECONDS: Readonly<Record<string, number>> = { ms: 1, s: 1e3, m: 60e3, h: 3_600e3, d: 86_400e3 };

/** `512KiB`, `64MiB`, `64Mi`, `1GiB` or `1048576` in bytes. @throws when the text is not a size */
export function parseBytes(text: string): number {
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)\s*(?:([kmg])i?b?)?$/i.exec(text.trim()) ?? [];
  const bytes = Math.round(Number(number) * (BYTES[unit.toLowerCase()] ?? NaN));
  if (!(bytes <= Number.MAX_SAFE_INTEGER))
    throw new Error(`"${text}" is not a size; write a number and a unit, such as 512KiB, 64MiB or 1GiB`);
  return bytes;
}

/** `500ms`, `10s`, `5m`, `1.5h` or `90d` in milliseconds. @throws when the text is not a duration */
export function parseDuration(text: string): number {
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim()) ?? [];
  const ms = Number(number) * (MILLISECONDS[unit] ?? NaN);
  if (!(ms <= Number.MAX_SAFE_INTEGER))
    throw new Error(
      `"${text}" is not a duration; write a number and a unit, such as 500ms, 10s, 5m, 1h or 90d`,
    );
  return ms;
}
