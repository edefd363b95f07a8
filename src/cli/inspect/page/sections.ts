/** The sections about the leader, the authority, certificates, injection targets and RestoreWindows. */
import { html, type Html, breakable, command, type Piece } from '../../../server/status-page/html.ts';
import { objectKey } from '../../../json/kube-object.ts';
import { pick } from '../../../json/json.ts';
import {
  CERT_TONES,
  generationCells,
  generationTone,
  nextGeneration,
  endpointCounts,
  servingCertCells,
  staleCells,
  controllerCells,
  controllerNote,
  describeControllers,
  TARGET_TONES,
  targetCells,
  describeLeader,
  minute,
} from '../status/cells.ts';
import { relative } from '../status/times.ts';
import type { Tone } from '../../terminal/output.ts';
import type { ServingCertRow } from '../status/report/serving-certs.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import {
  badge,
  listSection,
  mono,
  pieces,
  section,
  table,
  unreadParts,
  timeLinePicture,
  type DrawnLifetime,
  nothing,
  spanPicture,
} from './parts.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { counted } from '../../../json/counted.ts';
import {
  describeRelink,
  describeDeferral,
  detailsOf,
  identity,
  sweptObjects,
  violationRows,
  type WindowDetails,
} from '../../restore/window-report.ts';

export function leaderSection(report: StatusReport, now: Date): Html {
  const { replicas, unread } = report.leader;
  const rows = replicas.map(({ name, process, ready, leads, node, image, restarts }) => ({
    cells: [
      mono(name),
      process,
      ready ? badge('ready', 'good') : badge('not ready', 'bad'),
      leads ? 'leads' : '',
      ...[restarts, node ?? '', image ?? ''],
    ],
    isProblem: !ready,
  }));
  return section(
    'leader',
    'Leader and replicas',
    html`<p class="lead">${pieces([describeLeader(report, now)])}</p>`,
    unreadParts(unread),
    table('Pods of Gatehouse', ['Replica', 'Process', 'State', 'Leads', 'Restarts', 'Node', 'Image'], rows),
  );
}

export function authoritySection({ authority, servingCerts }: StatusReport, now: Date): Html {
  const { source, phase, generations, unread } = authority;
  const rows = generations.map((generation) => {
    const [, ...cells] = pieces(generationCells(generation, now));
    return { cells: [mono(generation.id), ...cells], isProblem: generation.expired };
  });
  const lifetimes = [
    ...generations.map((generation) => ({
      ...pick(generation, 'notBefore', 'notAfter'),
      name: `Generation ${generation.id} · ${generation.state}`,
      tone: generationTone(generation),
      event: 'next generation',
      dueAt: generation.rotationAt,
    })),
    ...certLifetimes(servingCerts.items),
  ];
  return section(
    'authority',
    'Certificate authority',
    html`<p class="lead">
      ${
        phase === undefined
          ? source === 'ConfigMap'
            ? 'From the published bundle; the Secret has the states of the generations.'
            : 'Unknown.'
          : `${phase}${nextGeneration(generations, now)}`
      }
    </p>`,
    unreadParts(unread),
    timeLinePicture(lifetimes, now),
    table('Generations, newest first', ['Generation', 'State', 'From', 'To', 'Ends'], rows),
  );
}

const MAX_DRAWN = 8;

const certLifetimes = (items: readonly ServingCertRow[]): readonly DrawnLifetime[] =>
  items
    .flatMap(({ namespace, name, notBefore, notAfter, renewAt, state }) =>
      notBefore === undefined || notAfter === undefined
        ? []
        : {
            name: `${namespace}/${name}`,
            notBefore,
            notAfter,
            tone: CERT_TONES[state],
            event: 'renewal',
            dueAt: renewAt,
          },
    )
    .slice(0, MAX_DRAWN);

export function servingCertsSection({ servingCerts: { unread, items } }: StatusReport, now: Date): Html {
  const rows = items.map((item) => {
    const { signedBy, message, state } = item;
    const signer = html`signed by ${signedBy === undefined ? 'an unknown key' : mono(signedBy)}`;
    return {
      cells: [...pieces(servingCertCells(item, now)), message ?? signer],
      isProblem: CERT_TONES[state] === 'bad',
    };
  });
  return listSection(
    'serving-certs',
    'Serving certificates',
    unread,
    'No Service requests a certificate.',
    rows,
    'Serving certificates by expiry',
    ['Secret', 'Service', 'State', 'Ends', 'Renewal', 'Signer'],
  );
}

export function servedCertsSection({ servedCerts }: StatusReport, now: Date): Html | undefined {
  const { unread, endpoints, items } = servedCerts;
  if (endpoints === undefined && unread.length === 0) return undefined;
  const rows = items.map((item) => ({ cells: pieces(staleCells(item, now)), isProblem: true }));
  return section(
    'served-certs',
    'Certificates that servers present',
    html`<p class="lead">${endpointCounts(servedCerts, now)}</p>`,
    unreadParts(unread),
    table(
      'Servers that present an earlier certificate than their Secret contains',
      ['Service', 'Secret', 'Stale since', 'Ends', 'Pods'],
      rows,
    ),
  );
}

export function targetsSection({ injectionTargets: { unread, items } }: StatusReport): Html {
  const rows = items.map((item) => ({
    cells: [objectKey(item), item.kind, ...pieces(targetCells(item)), item.message ?? ''],
    isProblem: TARGET_TONES[item.state] === 'bad',
  }));
  return listSection(
    'targets',
    'Injection targets',
    unread,
    'No object requests a CA bundle.',
    rows,
    'Objects into which Gatehouse injects a CA bundle',
    ['Name', 'Kind', 'CA bundle', 'From', 'Why'],
  );
}

export function controllersSection({ userControllers: part }: StatusReport, now: Date): Html | undefined {
  const { items, unread } = part;
  if (items.length === 0 && unread.length === 0) return undefined;
  const rows = items.map((item) => ({
    cells: [...pieces(controllerCells(item, now)), controllerNote(item, now)],
    isProblem: item.missing.length + item.failing + item.delayed + item.stalled > 0,
  }));
  return section(
    'controllers',
    'Controllers of users',
    part.stale === undefined ? undefined : html`<p class="lead">${describeControllers(part, now)}</p>`,
    unreadParts(unread),
    table(
      'Controllers of --handlers',
      ['Name', 'Watches', 'Objects', 'In work', 'Failing', 'Last pass', 'Note'],
      rows,
    ),
  );
}

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

function report(details: WindowDetails): Html | undefined {
  if (details.violationItems.length + details.relinkItems.length === 0) return undefined;
  return html`<details id="report-${details.name}">
    <summary>Report of ${details.name}</summary>
    ${findings(details)}
  </details>`;
}

/** The findings in the window itself; `gatehouse restore status` also shows those in RestoreReports. */
function findings({ name, violations = 0, violationItems, relinkItems }: WindowDetails): Html {
  const rows = violationRows(violationItems).map(({ object, isFirst, field, policy, what }) => ({
    cells: [isFirst ? object : html`<span class="same">${object}</span>`, field, policy, what],
    isProblem: true,
  }));
  const ownerRows = relinkItems.map((item) => ({
    cells: [identity(item.object), describeRelink(item)],
    isProblem: true,
  }));
  const unlisted = violations - violationItems.length;
  return html`${table('Policy violations since the restore', ['Object', 'Field', 'Policy', 'Violation and remedy'], rows)}${
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
