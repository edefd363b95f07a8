/** Lives beside each other over one stretch of time, as a picture (SVG) that is as wide as there is room. */
import { html, type Html } from '../../../server/status-page/html.ts';
import { stretchOver, type Stretch } from '../status/format/time-line.ts';
import type { Tone } from './parts.ts';

export interface DrawnLife {
  readonly name: string;
  /** On the right of the name, such as how it ends. */
  readonly note: string;
  readonly from: Date;
  readonly to: Date;
  readonly tone: Tone;
  /** Something to come in it, with what it is. */
  readonly mark?: { readonly at: Date; readonly what: string } | undefined;
}

const ROW = 40;
const BAR = 12;
const AXIS = 26;
const TICKS = [0, 0.25, 0.5, 0.75, 1];
const DAY_MS = 86_400_000;

/** @param id of the picture on the page; @param description for those who do not see it */
export function timeLinePicture(
  id: string,
  description: string,
  lives: readonly DrawnLife[],
  now: Date,
): Html | undefined {
  if (lives.length === 0) return undefined;
  const stretch = stretchOver(now, ...lives.flatMap(({ from, to }) => [from, to]));
  const bottom = lives.length * ROW + 20;
  // Places across are in per cent: nothing is stretched out of shape, and letters keep their size.
  return html`<figure>
    <figcaption id="${id}-caption">${description}</figcaption>
    <svg class="time" height="${bottom + AXIS}" role="img" aria-labelledby="${id}-caption">
      ${TICKS.map((share) => tick(share, stretch, bottom))}
      ${lives.map((life, index) => drawLife(life, index * ROW + 20, stretch))}
      ${nowLine(stretch.shareOf(now), bottom)}
    </svg>
  </figure> `;
}

/** To a tenth of a per cent: the picture of a second later is the same, and need not be sent. */
const percent = (share: number): string => `${(share * 100).toFixed(1)}%`;

function drawLife({ name, note, from, to, tone, mark }: DrawnLife, top: number, stretch: Stretch): Html {
  const [begin, end] = [stretch.shareOf(from), stretch.shareOf(to)];
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
      mark === undefined
        ? undefined
        : html`<circle class="mark" cx="${percent(stretch.shareOf(mark.at))}" cy="${y + BAR / 2}" r="4"
            ><title>${mark.what}</title></circle
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

function tick(share: number, { from, to }: Stretch, bottom: number): Html {
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

/** Text at an edge stays inside. */
const anchorOf = (share: number): string => (share < 0.05 ? 'start' : share > 0.95 ? 'end' : 'middle');

/** How much of something is over or done, as a bar. @param share 0 to 1 */
export const spanPicture = (share: number, tone: Tone, description: string): Html =>
  html`<svg class="span" role="img" aria-label="${description}">
    <rect class="${tone}" x="0" y="0" width="${percent(Math.min(1, Math.max(0, share)))}" height="8" />
  </svg>`;
