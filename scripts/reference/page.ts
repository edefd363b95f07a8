/** A page of docs/reference, without its header. */
export interface File {
  readonly file: string;
  readonly title: string;
  readonly text: string;
}

export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

/** Text with code spans for a table cell. Outside the spans, `<name>` would be HTML and `*` would be emphasis. */
export const cell = (text: string): string =>
  text
    .split(/(`[^`]*`)/)
    .map((part) =>
      part.startsWith('`')
        ? code(part.slice(1, -1))
        : part.replaceAll(/[\\*|]/g, '\\$&').replaceAll('<', '&lt;'),
    )
    .join('')
    .replaceAll('\n', ' ');

/** A code span for a table cell. It shows backslashes as they are, but `|` would start the next cell. */
export const code = (text: string): string => `\`${text.replaceAll('|', '\\|')}\``;
