/** How values of others appear in our messages: short, on one line, and unable to pass for something else. */

/** Line breaks, control characters, invisible and direction-changing ones, halves of surrogate pairs. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** No name in Kubernetes is longer than 253 characters; what is longer need not be repeated to be recognised. */
const LONGEST_VALUE = 128;

/** At most `limit` characters of a text, escaped; `…` marks what was left out. */
export function shorten(text: string, limit: number): string {
  return escape(cut(text, limit));
}

/** A value in a message: strings in quotes, lists and objects only by what they are. */
export function quote(value: unknown): string {
  if (typeof value === 'string') {
    return `"${escape(cut(value, LONGEST_VALUE).replace(/["\\]/g, '\\$&'))}"`;
  }
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/** Cut before anything else: a value may be megabytes long. */
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

/** What users wrote, and a terminal or a reader of lines would take for a command, for another direction, or for the end of a line. */
const STEERING = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/** Names and messages in a table. */
export function printable(text: string): string {
  return text.replaceAll(/[\n\t]/g, ' ').replaceAll(STEERING, '\ufffd');
}

/**
 * What stands in quotes of JSON or YAML: escaped it is the same text for whoever parses it. Line breaks and tabs stay, for those in
 * strings are escaped already.
 */
export function escapeControls(text: string): string {
  return text.replaceAll(STEERING, (character) =>
    character === '\n' || character === '\t'
      ? character
      : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
