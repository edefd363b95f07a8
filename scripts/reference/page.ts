/** A page of docs/reference, without its header. */
export interface File {
  readonly file: string;
  readonly title: string;
  readonly text: string;
}

export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

/** Escapes text for a table cell: `<name>` would be HTML, and `|` would start the next cell. */
export const cell = (text: string): string =>
  text
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith('`') ? part : part.replaceAll('<', '&lt;').replaceAll('*', '\\*')))
    .join('')
    .replaceAll('|', '\\|')
    .replaceAll('\n', ' ');
