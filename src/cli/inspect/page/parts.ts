/** Building blocks of the status page. */
import { breakable, command, html, type Html, type Piece } from '../../../server/status-page/html.ts';
import { describeUnread, type Unread } from '../read-cluster/reading.ts';
import type { StatusCell, Tone } from '../status/cells.ts';

export const badge = (text: string, tone: Tone): Html => html`<span class="state ${tone}">${text}</span>`;

/** Cells of the report; those with a tone become badges. */
export const pieces = (cells: readonly StatusCell[]): readonly Piece[] =>
  cells.map(({ text, tone }) => (tone === undefined ? text : badge(text, tone)));

export const mono = (text: string): Html => html`<span class="mono">${text}</span>`;

/** Text with line breaks. */
export const lines = (text: string): readonly Html[] =>
  text.split('\n').map((line, index) => (index === 0 ? html`${line}` : html`<br />${line}`));

/** A cluster can have thousands of objects. */
export const MAX_ROWS = 200;

export interface TableRow {
  readonly cells: readonly Piece[];
  /** Over the row limit, problems come first. */
  readonly isProblem: boolean;
}

/** The first column is the name of the row. On narrow screens, each row becomes a list of headings and values. */
export function table(
  caption: string,
  allHeadings: readonly string[],
  allRows: readonly TableRow[],
): Html | undefined {
  if (allRows.length === 0) return undefined;
  // Omit empty columns.
  const isUsed = (_any: unknown, column: number): boolean =>
    allRows.some(({ cells }) => !isEmpty(cells[column]));
  const headings = allHeadings.filter(isUsed);
  const rows = allRows.map(({ cells, isProblem }) => ({ cells: cells.filter(isUsed), isProblem }));
  const shown =
    rows.length <= MAX_ROWS
      ? rows
      : rows.toSorted((a, b) => Number(b.isProblem) - Number(a.isProblem)).slice(0, MAX_ROWS);
  const cellOf = (cell: Piece, column: number): Html =>
    column === 0
      ? html`<th scope="row" role="rowheader">${named(cell)}</th>`
      : isEmpty(cell)
        ? html`<td role="cell" class="empty"></td>`
        : html`<td role="cell" data-label="${headings[column]}">${wrapped(named(cell))}</td>`;
  const left = rows.length - shown.length;
  // Explicit roles: browsers drop the implicit ones when CSS lays rows out as lists.
  return html`<div class="table">
      <table role="table">
        <caption>
          ${caption}
        </caption>
        <thead role="rowgroup">
          <tr role="row">
            ${headings.map((heading) => html`<th scope="col" role="columnheader">${heading}</th>`)}
          </tr>
        </thead>
        <tbody role="rowgroup">
          ${shown.map(
            ({ cells }) =>
              html`<tr role="row">
                ${cells.map(cellOf)}
              </tr> `,
          )}
        </tbody>
      </table>
    </div>
    ${left === 0 ? undefined : html`<p class="more">and ${left} more: ${command('gatehouse status')}</p>`}`;
}

/** Long words without spaces are names. */
const named = (cell: Piece): Piece =>
  typeof cell === 'string' && /\S{16}/.test(cell) ? breakable(cell) : cell;

const isEmpty = (cell: Piece): boolean => cell === undefined || cell === '';

/** A single element: it is one cell of the grid on narrow screens. */
const wrapped = (cell: Piece): Piece => (typeof cell === 'object' ? html`<span>${cell}</span>` : cell);

export const unreadParts = (parts: readonly Unread[]): readonly Html[] =>
  parts.map((part) => html`<p class="unread">${describeUnread(part)}</p>`);

export const nothing = (text: string): Html => html`<p class="nothing">${text}</p>`;

export const section = (id: string, title: Piece, ...body: readonly Piece[]): Html =>
  html`<section id="${id}" aria-labelledby="${id}-title">
    <h2 id="${id}-title" tabindex="-1">${title}</h2>
    ${body}
  </section> `;

/** A section with a count in its title, and one table. @param none the text when there are no rows */
export const listSection = (
  id: string,
  title: string,
  unread: readonly Unread[],
  none: string,
  rows: readonly TableRow[],
  caption: string,
  headings: readonly string[],
): Html =>
  section(
    id,
    html`${title} <span class="count">${rows.length}</span>`,
    unreadParts(unread),
    rows.length === 0 && unread.length === 0 ? nothing(none) : undefined,
    table(caption, headings, rows),
  );
