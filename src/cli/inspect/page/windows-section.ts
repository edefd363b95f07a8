/** The section about RestoreWindows: progress, findings of the sweep, and advice. */
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { counted } from '../../../json/counted.ts';
import { breakable, command, html, type Html, type Piece } from '../../../server/status-page/html.ts';
import { describeRelink, describeViolation } from '../../restore/advice.ts';
import {
  describeDeferral,
  detailsOf,
  identity,
  sweptObjects,
  type WindowDetails,
} from '../../restore/window-report.ts';
import { minute, relative } from '../status/time-line.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import type { Tone } from '../status/cells.ts';
import { badge, nothing, section, table, unreadParts } from './parts.ts';
import { spanPicture } from './time-line-picture.ts';

/** `gatehouse restore status` lists older windows. */
const MAX_WINDOWS = 20;

const PHASE_TONES: Readonly<Record<string, Tone>> = {
  Open: 'warn',
  Settling: 'warn',
  Completed: 'good',
  CompletedWithViolations: 'bad',
  Refused: 'rest',
  Pending: 'rest',
};

export function windowsSection(
  { restoreWindows: { unread, total } }: StatusReport,
  windows: readonly RestoreWindow[],
  now: Date,
): Html {
  const newest = windows
    .toSorted((a, b) => startOf(b).localeCompare(startOf(a)))
    .slice(0, MAX_WINDOWS)
    .map((window) => windowPart(window, now));
  return section(
    'windows',
    html`Restore windows <span class="count">${total}</span>`,
    unreadParts(unread),
    total === 0 && unread.length === 0
      ? nothing('Gatehouse has detected no restore, and no user has opened a window.')
      : undefined,
    newest,
    total > newest.length
      ? html`<p class="more">
          and ${counted(total - newest.length, 'older window')}: ${command('gatehouse restore status')}
        </p>`
      : undefined,
  );
}

const startOf = ({ metadata, status }: RestoreWindow): string =>
  status?.openedAt ?? metadata.creationTimestamp ?? '';

/** Closed windows are collapsed: their summary says what is left to do. */
function windowPart(window: RestoreWindow, now: Date): Html {
  const details = detailsOf(window, []);
  const { name, phase, closedAt, violations = 0 } = details;
  const title = html`<h3>${breakable(name)} ${badge(phase, PHASE_TONES[phase] ?? 'rest')}</h3>`;
  const body = html`${steps(details)}${progress(window, details, now)}${facts(details, now)}`;
  if (phase === 'Open' || phase === 'Settling' || phase === 'Pending')
    return html`<div class="window">${title} ${body}${report(details)}${advice(details)}</div> `;
  const closed = closedAt === undefined ? undefined : `closed ${relative(closedAt, now)}`;
  const left = violations === 0 ? undefined : counted(violations, 'violation');
  return html`<details class="window" id="window-${name}">
    <summary>
      ${title} <span class="brief">${[closed, left].filter((one) => one !== undefined).join(', ')}</span>
    </summary>
    ${body}${findings(details)}${advice(details)}
  </details> `;
}

/** The phases of a window, with the reached ones marked. */
function steps({ phase }: WindowDetails): Html | undefined {
  const reached = { Open: 1, Settling: 2, Completed: 4, CompletedWithViolations: 4 }[phase];
  if (reached === undefined) return undefined;
  const names = ['Open', 'Settling', 'Final sweep', 'Report'];
  const items = names.map((name, index) => {
    const current = index === reached - 1 ? html` aria-current="step"` : undefined;
    return html`<li class="${index < reached ? 'done' : ''}" ${current}>${name}</li>`;
  });
  return html`<ol class="steps" aria-label="Progress">
    ${items}
  </ol>`;
}

function progress({ spec, status }: RestoreWindow, { phase }: WindowDetails, now: Date): Html | undefined {
  const { currentSweep, openedAt } = status ?? {};
  if (currentSweep !== undefined) {
    const { objectsScanned, objectsTotal, resource } = currentSweep;
    const of = objectsTotal === undefined ? '' : ` of about ${objectsTotal}`;
    const text = `Sweep: ${objectsScanned}${of} objects read, now ${resource}`;
    const share = objectsTotal === undefined || objectsTotal === 0 ? 0 : objectsScanned / objectsTotal;
    return html`${spanPicture(share, 'good', text)}
      <p class="nothing">${text}</p>`;
  }
  if (phase !== 'Open' || openedAt === undefined) return undefined;
  const [begin, end] = [openedAt, spec.expiresAt].map((time) => new Date(time).getTime());
  if (begin === undefined || end === undefined || !(end > begin)) return undefined;
  const text = `Open since ${minute(openedAt)}, expires ${relative(spec.expiresAt, now)}`;
  return html`${spanPicture((now.getTime() - begin) / (end - begin), 'warn', text)}
    <p class="nothing">${text}</p>`;
}

function facts(details: WindowDetails, now: Date): Html {
  const { source, openedBy, reason, closedAt, closeReason } = details;
  const { lastSweep, violations, relinked, expiresAt, phase } = details;
  const isOpen = phase === 'Open';
  const why = closeReason === undefined ? '' : ` (${closeReason})`;
  const all: readonly (readonly [string, Piece])[] = [
    ['Source', `${source}${openedBy === undefined ? '' : `, opened by ${openedBy}`}`],
    ['Reason', reason],
    ['Defers', isOpen ? describeDeferral(details) : undefined],
    ['Expires', isOpen ? minute(expiresAt) : undefined],
    ['Closed', closedAt && `${relative(closedAt, now)}${why}`],
    ['Last sweep', lastSweep && `${relative(lastSweep.finishedAt, now)}, ${sweptObjects(lastSweep)}`],
    [
      'Violations',
      violations === undefined ? undefined : badge(String(violations), violations === 0 ? 'good' : 'bad'),
    ],
    ['Owners linked', relinked],
  ];
  return html`<dl>
    ${all.flatMap(([name, value]) =>
      value === undefined
        ? []
        : [
            html`<dt>${name}</dt>
              <dd>${value}</dd>`,
          ],
    )}
  </dl>`;
}

const hasFindings = ({ violationItems, relinkItems }: WindowDetails): boolean =>
  violationItems.length > 0 || relinkItems.length > 0;

function report(details: WindowDetails): Html | undefined {
  if (!hasFindings(details)) return undefined;
  return html`<details id="report-${details.name}">
    <summary>Report of ${details.name}</summary>
    ${findings(details)}
  </details>`;
}

/** The findings in the window itself; `gatehouse restore status` also shows those in RestoreReports. */
function findings({ name, violations = 0, violationItems, relinkItems }: WindowDetails): Html {
  const byObject = Map.groupBy(violationItems, ({ object }) => identity(object));
  const violationRows = [...byObject].flatMap(([object, items]) =>
    items.map((item, index) => ({
      cells: [
        index === 0 ? object : html`<span class="same">${object}</span>`,
        ...[item.field, item.policy, `${item.reason}: ${describeViolation(item)}`],
      ],
      isProblem: true,
    })),
  );
  const ownerRows = relinkItems.map((item) => ({
    cells: [identity(item.object), describeRelink(item)],
    isProblem: true,
  }));
  const unlisted = violations - violationItems.length;
  return html`${table('Policy violations since the restore', ['Object', 'Field', 'Policy', 'Violation and remedy'], violationRows)}${
    unlisted > 0
      ? html`<p class="more">and ${unlisted} more: ${command(`gatehouse restore status ${name}`)}</p>`
      : undefined
  }
  ${table('Lost owner references', ['Object', 'Owner and result'], ownerRows)}`;
}

/** A command at the end of an advice. Its only argument is the name of the window. */
const COMMAND = /^(.*): (gatehouse restore [a-z]+ [a-z0-9.-]+(?: --wait)?)$/s;

function advice({ advice: all }: WindowDetails): Html | undefined {
  if (all.length === 0) return undefined;
  const items = all.map((text) => {
    const [, what, next] = COMMAND.exec(text) ?? [];
    return html`<li>
      ${what === undefined || next === undefined ? text : html`${what}: ${command(next)}`}
    </li>`;
  });
  return html`<p class="nothing">What to do:</p>
    <ul class="nothing">
      ${items}
    </ul>`;
}
