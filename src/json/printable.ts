/** Untrusted values in messages and output: short, on one line, without characters that change how text is shown. */

/** Line breaks, control characters, invisible and direction-changing ones, halves of surrogate pairs. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Enough to recognise a value. */
const LONGEST_VALUE = 128;

/** At most `limit` characters of a text, escaped; `…` marks the cut. */
export function shorten(text: string, limit: number): string {
  return escape(cut(text, limit));
}

/** A value in a message: strings in quotes, `a list` and `an object` for the others. */
export function quote(value: unknown): string {
  if (typeof value === 'string') {
    return `"${escape(cut(value, LONGEST_VALUE).replace(/["\\]/g, '\\$&'))}"`;
  }
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/** Cuts before escaping: a value may be megabytes long. */
function cut(text: string, limit: number): string {
  const start = text.slice(0, 2 * limit + 2); // a character has at most two code units
  const characters = Array.from(start);
  if (start.length === text.length && characters.length <= limit) return text;
  return `${characters.slice(0, limit - 1).join('')}…`;
}

function escape(text: string): string {
  return text.replace(UNPRINTABLE, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code <= 0xffff ? `\\u${code.toString(16).padStart(4, '0')}` : `\\u{${code.toString(16)}}`;
  });
}

/** Characters that terminals and line-based readers take for a command, a change of direction or the end of a line. */
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/** Text for one cell of a table. */
export function printable(text: string): string {
  return text.replaceAll(/[\n\t]/g, ' ').replaceAll(CONTROLS, '\ufffd');
}

/**
 * JSON or YAML with control characters escaped: it still parses to the same values. Line breaks and tabs stay, because those in
 * strings are escaped already.
 */
export function escapeControls(text: string): string {
  return text.replaceAll(CONTROLS, (character) =>
    character === '\n' || character === '\t'
      ? character
      : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
