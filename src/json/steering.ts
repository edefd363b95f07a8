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
export function escapeSteering(text: string): string {
  return text.replaceAll(STEERING, (character) =>
    character === '\n' || character === '\t'
      ? character
      : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
