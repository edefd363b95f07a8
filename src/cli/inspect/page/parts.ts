/** Building blocks of the status page: sections, tables, and pictures of time spans. */
import { breakable, command, html, type Html, type Piece } from '../../../server/status-page/html.ts';
import { describeUnread, type Unread } from '../read-cluster/reading.ts';
import { timeScale } from '../status/cells.ts';
import { relative } from '../status/times.ts';
import type { Cell, Tone } from '../../terminal/output.ts';

export const badge = (text: string, tone: Tone): Html => html`<span class="state ${tone}">${text}</span>`;

export const pieces = (cells: readonly Cell[]): readonly Piece[] =>
  cells.map((cell) => (typeof cell === 'string' ? cell : badge(cell.text, cell.tone)));

export const mono = (text: string): Html => html`<span class="mono">${text}</span>`;

export const lines = (text: string): readonly Html[] =>
  text.split('\n').map((line, index) => (index === 0 ? html`${line}` : html`<br />${line}`));

export const MAX_ROWS = 200;

interface TableRow {
  readonly cells: readonly Piece[];
  readonly isProblem: boolean;
}

/** The first column is the name of the row. On narrow screens, each row becomes a list of headings and values. */
export function table(
  caption: string,
  allHeadings: readonly string[],
  allRows: readonly TableRow[],
): Html | undefined {
  if (allRows.length === 0) return undefined;
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

export interface DrawnLifetime {
  readonly name: string;
  readonly notBefore: string;
  readonly notAfter: string;
  readonly tone: Tone;
  readonly event: string;
  readonly dueAt: string | undefined;
}

type TimeScale = ReturnType<typeof timeScale>;

const ROW = 40;
const BAR = 12;
const AXIS = 26;
const TICKS = [0, 0.25, 0.5, 0.75, 1];
const DAY_MS = 86_400_000;

const CAPTION =
  'Lifetimes of the generations of the authority, then of the serving certificates that expire first. A ring marks when each is due for replacement.';

export function timeLinePicture(lifetimes: readonly DrawnLifetime[], now: Date): Html | undefined {
  if (lifetimes.length === 0) return undefined;
  const ends = lifetimes.flatMap(({ notBefore, notAfter }) => [new Date(notBefore), new Date(notAfter)]);
  const scale = timeScale(now, ...ends);
  const bottom = lifetimes.length * ROW + 20;
  // Horizontal positions are percentages, so that shapes are not distorted and text keeps its size.
  return html`<figure>
    <figcaption id="time-line-caption">${CAPTION}</figcaption>
    <svg class="time" height="${bottom + AXIS}" role="img" aria-labelledby="time-line-caption">
      ${TICKS.map((share) => tick(share, scale, bottom))}
      ${lifetimes.map((lifetime, index) => drawLifetime(lifetime, index * ROW + 20, scale, now))}
      ${nowLine(scale.shareOf(now), bottom)}
    </svg>
  </figure> `;
}

/** To a tenth of a percent: one second later the picture is usually the same, and is not sent again. */
const percent = (share: number): string => `${(share * 100).toFixed(1)}%`;

function drawLifetime(
  { name, notBefore, notAfter, tone, event, dueAt }: DrawnLifetime,
  top: number,
  scale: TimeScale,
  now: Date,
): Html {
  const [from, to] = [new Date(notBefore), new Date(notAfter)];
  const [begin, end] = [scale.shareOf(from), scale.shareOf(to)];
  const note = `${to <= now ? 'ended' : 'ends'} ${relative(notAfter, now)}`;
  const y = top + 19;
  return html`<g
    ><text class="name" x="0" y="${top + 12}">${name}</text
    ><text x="100%" y="${top + 12}" text-anchor="end">${note}</text>
    <rect class="track" x="0" y="${y}" width="100%" height="${BAR}" rx="${BAR / 2}" /><rect
      class="${tone}"
      x="${percent(begin)}"
      y="${y}"
      width="${percent(Math.max(0.004, end - begin))}"
      height="${BAR}"
      rx="${BAR / 2}"
    />${
      dueAt === undefined
        ? undefined
        : html`<circle class="mark" cx="${percent(scale.shareOf(new Date(dueAt)))}" cy="${y + BAR / 2}" r="4"
            ><title>${`${event} due ${relative(dueAt, now)}`}</title></circle
          >`
    }</g
  > `;
}

function nowLine(share: number, bottom: number): Html {
  return html`<line class="now" x1="${percent(share)}" x2="${percent(share)}" y1="14" y2="${bottom}" /><text
      class="now"
      x="${percent(share)}"
      y="10"
      text-anchor="${anchorOf(share)}"
      >now</text
    >`;
}

function tick(share: number, { from, to }: TimeScale, bottom: number): Html {
  const instant = new Date(Number(from) + share * (Number(to) - Number(from)));
  const short = Number(to) - Number(from) < 3 * DAY_MS;
  const text = short
    ? instant.toISOString().slice(5, 16).replace('T', ' ')
    : instant.toISOString().slice(0, 10);
  const inner = share === 0.25 || share === 0.75 ? 'wide' : '';
  return html`<g class="${inner}"
    ><line class="grid" x1="${percent(share)}" x2="${percent(share)}" y1="18" y2="${bottom + 4}" /><text
      x="${percent(share)}"
      y="${bottom + 18}"
      text-anchor="${anchorOf(share)}"
      >${text}</text
    ></g
  > `;
}

const anchorOf = (share: number): string => (share < 0.05 ? 'start' : share > 0.95 ? 'end' : 'middle');

export const spanPicture = (share: number, tone: Tone, description: string): Html =>
  html`<svg class="span" role="img" aria-label="${description}">
    <rect class="${tone}" x="0" y="0" width="${percent(Math.min(1, Math.max(0, share)))}" height="8" />
  </svg>`;
