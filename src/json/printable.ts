/** Formats untrusted values for messages and output: short, on one line, without characters that affect the display. */

/** Line breaks, control characters, invisible and direction-changing characters, lone surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

const MAX_VALUE_LENGTH = 128;

/** At most `limit` characters of a text, escaped; `…` marks the cut. */
export const shorten = (text: string, limit: number): string => escape(cut(text, limit));

/** Formats a value for a message: a string in quotes, a list as `a list`, an object as `an object`. */
export function quote(value: unknown): string {
  if (typeof value === 'string') return `"${escape(cut(value, MAX_VALUE_LENGTH).replace(/["\\]/g, '\\$&'))}"`;
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/** At most `limit` characters of a text; `…` marks the cut. Cut before you escape: a value may be megabytes long. */
export function cut(text: string, limit: number): string {
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

/** Characters that terminals and line-based readers interpret as a command, a change of direction or a line end. */
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

export function printable(text: string): string {
  return text.replaceAll(/[\n\t]/g, ' ').replaceAll(CONTROLS, '\ufffd');
}

/** JSON or YAML still parses to the same values. Keeps line breaks and tabs: those in strings are escaped already. */
export function escapeControls(text: string): string {
  return text.replaceAll(CONTROLS, (character) =>
    character === '\n' || character === '\t'
      ? character
      : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
