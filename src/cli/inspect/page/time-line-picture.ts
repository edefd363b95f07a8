/** Lifetimes on a common time scale, as an SVG that fills the width of the page. */
import { html, type Html } from '../../../server/status-page/html.ts';
import { timeScale } from '../status/time-line.ts';
import type { Tone } from '../status/cells.ts';

export interface DrawnLifetime {
  readonly name: string;
  /** Shown at the right of the name, e.g. when it ends. */
  readonly note: string;
  readonly from: Date;
  readonly to: Date;
  readonly tone: Tone;
  /** A future event, with its description. */
  readonly mark?: { readonly at: Date; readonly what: string } | undefined;
}

type TimeScale = ReturnType<typeof timeScale>;

const ROW = 40;
const BAR = 12;
const AXIS = 26;
const TICKS = [0, 0.25, 0.5, 0.75, 1];
const DAY_MS = 86_400_000;

/** Also describes the picture for screen readers. */
const CAPTION =
  'Lifetimes of the generations of the authority, then of the serving certificates that expire first. A ring marks when each is due for replacement.';

export function timeLinePicture(lifetimes: readonly DrawnLifetime[], now: Date): Html | undefined {
  if (lifetimes.length === 0) return undefined;
  const scale = timeScale(now, ...lifetimes.flatMap(({ from, to }) => [from, to]));
  const bottom = lifetimes.length * ROW + 20;
  // Horizontal positions are percentages, so that shapes are not distorted and text keeps its size.
  return html`<figure>
    <figcaption id="time-line-caption">${CAPTION}</figcaption>
    <svg class="time" height="${bottom + AXIS}" role="img" aria-labelledby="time-line-caption">
      ${TICKS.map((share) => tick(share, scale, bottom))}
      ${lifetimes.map((lifetime, index) => drawLifetime(lifetime, index * ROW + 20, scale))}
      ${nowLine(scale.shareOf(now), bottom)}
    </svg>
  </figure> `;
}

/** To a tenth of a percent: one second later the picture is usually the same, and is not sent again. */
const percent = (share: number): string => `${(share * 100).toFixed(1)}%`;

function drawLifetime(
  { name, note, from, to, tone, mark }: DrawnLifetime,
  top: number,
  scale: TimeScale,
): Html {
  const [begin, end] = [scale.shareOf(from), scale.shareOf(to)];
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
        : html`<circle class="mark" cx="${percent(scale.shareOf(mark.at))}" cy="${y + BAR / 2}" r="4"
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

/** Keeps text at the edges inside the picture. */
const anchorOf = (share: number): string => (share < 0.05 ? 'start' : share > 0.95 ? 'end' : 'middle');

/** A progress bar. @param share 0 to 1 */
export const spanPicture = (share: number, tone: Tone, description: string): Html =>
  html`<svg class="span" role="img" aria-label="${description}">
    <rect class="${tone}" x="0" y="0" width="${percent(Math.min(1, Math.max(0, share)))}" height="8" />
  </svg>`;
