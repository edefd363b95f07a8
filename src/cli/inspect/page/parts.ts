/** What the sections of the status page are made of. */
import { html, type Html, type Piece } from '../../../server/status-page/html.ts';
import { describeUnread, type Unread } from '../status/reading.ts';

/** How something stands; the style sheet has a colour for each. */
export type Tone = 'good' | 'warn' | 'bad' | 'rest';

export const badge = (text: string, tone: Tone): Html => html`<span class="state ${tone}">${text}</span>`;

export const mono = (text: string): Html => html`<span class="mono">${text}</span>`;

/** A message of several lines. */
export const lines = (text: string): readonly Html[] =>
  text.split('\n').map((line, index) => (index === 0 ? html`${line}` : html`<br />${line}`));

/** More rows help nobody, and a cluster may have thousands. */
export const MOST_ROWS = 200;

export interface TableRow {
  readonly cells: readonly Piece[];
  /** Those with problems are shown first where there is no room for all. */
  readonly isProblem: boolean;
}

/** The first column names the row. On narrow screens each row becomes a list, with the headings before the values. */
export function table(
  caption: string,
  allHeadings: readonly string[],
  allRows: readonly TableRow[],
): Html | undefined {
  if (allRows.length === 0) return undefined;
  // A column in which nobody has anything to say takes room from the others.
  const isUsed = (_any: unknown, column: number): boolean =>
    allRows.some(({ cells }) => !isEmpty(cells[column]));
  const headings = allHeadings.filter(isUsed);
  const rows = allRows.map(({ cells, isProblem }) => ({ cells: cells.filter(isUsed), isProblem }));
  const shown =
    rows.length <= MOST_ROWS
      ? rows
      : rows.toSorted((a, b) => Number(b.isProblem) - Number(a.isProblem)).slice(0, MOST_ROWS);
  const cellOf = (cell: Piece, column: number): Html =>
    column === 0
      ? html`<th scope="row" role="rowheader">${cell}</th>`
      : isEmpty(cell)
        ? html`<td role="cell" class="empty"></td>`
        : html`<td role="cell" data-label="${headings[column]}">${wrapped(cell)}</td>`;
  const left = rows.length - shown.length;
  // The roles say again what the elements are: where CSS lays rows out as lists, browsers forget it.
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
    ${left === 0 ? undefined : html`<p class="more">and ${left} more: ${mono('gatehouse status')} lists all</p>`}`;
}

const isEmpty = (cell: Piece): boolean => cell === undefined || cell === '';

/** One element, which is one cell of the grid that it becomes on a narrow screen. */
const wrapped = (cell: Piece): Piece => (typeof cell === 'object' ? html`<span>${cell}</span>` : cell);

export const unreadParts = (parts: readonly Unread[]): readonly Html[] =>
  parts.map((part) => html`<p class="unread">${describeUnread(part)}</p>`);

export const nothing = (text: string): Html => html`<p class="nothing">${text}</p>`;

export const section = (id: string, title: Piece, ...body: readonly Piece[]): Html =>
  html`<section id="${id}" aria-labelledby="${id}-title">
    <h2 id="${id}-title" tabindex="-1">${title}</h2>
    ${body}
  </section> `;
