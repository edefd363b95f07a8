/** A page of docs/reference, before it has its head. */
export interface File {
  readonly file: string;
  readonly title: string;
  readonly text: string;
}

export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

/** Text as it may stand in a cell: `<name>` would be HTML, and a bar the next cell. */
export const cell = (text: string): string =>
  text
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith('`') ? part : part.replaceAll('<', '&lt;').replaceAll('*', '\\*')))
    .join('')
    .replaceAll('|', '\\|')
    .replaceAll('\n', ' ');
