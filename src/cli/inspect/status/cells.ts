/** What terminal and status page show alike: cells of the report, times, and lifetimes on a common scale. */
import { age, relative } from './times.ts';
import type { StaleRow } from '../../../runtime/endpoints/report.ts';
import type { GenerationRow } from './report/authority.ts';
import type { InjectionTargetRow } from './report/injection-targets.ts';
import type { PolicyRow, HandlerRow } from './report/policies.ts';
import type { Cell, Tone } from '../../terminal/output.ts';
import { asOf, type UserControllersPart } from './report/user-controllers.ts';
import type { PublishedController } from '../../../runtime/controllers/published.ts';
import type { StatusReport } from './report/status-report.ts';
import { namedPods, type ServedCertsPart, type ServingCertRow } from './report/serving-certs.ts';

export const describeRestrictions = ({ without, namespaces }: StatusReport): readonly string[] => [
  ...(without.length === 0 ? [] : [`Off (--without): ${without.join(', ')}`]),
  ...(namespaces === undefined ? [] : [`Only in namespaces (--namespaces): ${namespaces.join(', ')}`]),
];

const GENERATION_TONES = { pending: 'warn', active: 'good', retiring: 'rest', trusted: 'good' } as const;

export const generationTone = ({ state, expired }: GenerationRow): Tone =>
  expired ? 'bad' : GENERATION_TONES[state];

export function generationCells(generation: GenerationRow, now: Date, daysOnly = false): readonly Cell[] {
  const { id, state, expired, notBefore, notAfter } = generation;
  return [
    id,
    { text: expired ? `${state}, expired` : state, tone: generationTone(generation) },
    ...[notBefore, notAfter].map((time) => (daysOnly ? time.slice(0, 10) : minute(time))),
    relative(notAfter, now),
  ];
}

/** When the next generation signs, the active one is replaced, and the old ones are removed; empty if unknown. */
export function nextGeneration(generations: readonly GenerationRow[], now: Date): string {
  const { rotationAt } = generations.find(({ state }) => state === 'active') ?? {};
  const next = rotationAt === undefined ? '' : `; the next generation is due ${relative(rotationAt, now)}`;
  const retirements = generations.flatMap(({ id, retiresAt }) =>
    retiresAt === undefined
      ? []
      : `; ${id} is removed ${relative(retiresAt, now)}: restart before then what loads certificates only at start`,
  );
  const pending = generations.find(({ state }) => state === 'pending');
  return `${pending === undefined ? next : `; ${start(pending, now)}`}${retirements.at(-1) ?? ''}`;
}

function start({ id, signsAt }: GenerationRow, now: Date): string {
  if (signsAt === undefined) return `${id} starts signing after every target holds its root`;
  if (Date.parse(signsAt) <= now.getTime()) return `${id} starts signing now`;
  return `${id} starts signing ${relative(signsAt, now)} (${signsAt.slice(11, 16)}Z)`;
}

export const CERT_TONES = {
  Valid: 'good',
  RenewalDue: 'warn',
  Overdue: 'bad',
  Expired: 'bad',
  UnknownSigner: 'bad',
  Unusable: 'bad',
  Missing: 'bad',
} as const;

export function servingCertCells(cert: ServingCertRow, now: Date): readonly Cell[] {
  const { namespace, name, service, purpose, state, notAfter, renewAt } = cert;
  return [
    `${namespace}/${name}`,
    purpose === 'client' ? `${service} (client)` : service,
    { text: state, tone: CERT_TONES[state] },
    relative(notAfter, now),
    renewAt === undefined && notAfter !== undefined ? 'with the CA' : relative(renewAt, now),
  ];
}

export function describeLeader({ leader }: StatusReport, now: Date): Cell {
  const { state, holder = '', acquiredAt, renewedAt } = leader;
  switch (state) {
    case 'Held':
      return `${holder}, for ${age(acquiredAt, now)}`;
    case 'Free':
      return { text: 'no leader', tone: 'bad' };
    case 'Expired':
      return { text: `no leader: ${holder} last renewed the Lease ${relative(renewedAt, now)}`, tone: 'bad' };
    case 'Unknown':
      return '';
  }
}

/** Empty without a report of the leader. */
export function endpointCounts({ endpoints, checkedAt }: ServedCertsPart, now: Date): string {
  if (endpoints === undefined) return '';
  const counts = Object.entries(endpoints).map(([state, count]) => `${count} ${state}`);
  return `${counts.join(', ')}, as of ${relative(checkedAt, now)}`;
}

export const staleCells = (row: StaleRow, now: Date): readonly Cell[] => [
  `${row.namespace}/${row.service}`,
  row.secret,
  { text: relative(row.since, now), tone: 'bad' },
  relative(row.notAfter, now),
  namedPods(row),
];

export const TARGET_TONES = {
  Current: 'good',
  Stale: 'bad',
  Invalid: 'bad',
  Empty: 'rest',
  Unknown: 'warn',
} as const;

export const targetCells = ({ state, source }: InjectionTargetRow): readonly Cell[] => [
  { text: state, tone: TARGET_TONES[state] },
  source,
];

export const describeHandlers = (handlers: readonly HandlerRow[]): string =>
  handlers
    .map(({ name, mutates, validates }) => {
      const does = [...(mutates ? ['mutates'] : []), ...(validates ? ['validates'] : [])];
      return `${name} (${does.join(', ')})`;
    })
    .join(', ');

const CONDITION_TONES = { True: 'good', False: 'bad', Unknown: 'warn' } as const;

export const policyCells = (policy: PolicyRow): readonly Cell[] => [
  policy.name,
  ...[policy.ready, policy.webhooksInstalled].map((is) => ({ text: is, tone: CONDITION_TONES[is] })),
  policy.enforcement,
];

/** Objects, those that wait for a pass or are in one, those with trouble, the last pass, and what is missing. */
export function controllerCells(row: PublishedController, now: Date): readonly Cell[] {
  const { name, watches, objects, queued, active, failing, delayed, stalled, lastPass } = row;
  const bad = failing + delayed + stalled;
  return [
    ...[name, watches, String(objects), `${queued + active}`],
    { text: String(bad), tone: bad === 0 ? 'good' : 'bad' },
    lastPass === undefined ? '–' : `${relative(lastPass.at, now)}, ${lastPass.result}`,
  ];
}

export function controllerNote({ lentTo, missing, oldestPass }: PublishedController, now: Date): string {
  if (lentTo !== undefined) return `lent: it runs in the dev session of ${lentTo}`;
  if (missing.length > 0) return missing.map(({ kind, why }) => `${kind}: ${why}`).join(', ');
  return oldestPass === undefined ? '' : `pass over ${oldestPass.object} for ${age(oldestPass.at, now)}`;
}

/** Empty if the state is current. */
export const describeControllers = ({ checkedAt, stale }: UserControllersPart, now: Date): string =>
  stale === undefined ? '' : `stale: ${stale}; ${asOf(checkedAt, now)}`;

/** Why the number of violations is possibly too low; empty if it is not. */
export function auditNote({ objects, incomplete, checkedAt }: PolicyRow, now: Date): string {
  if (incomplete !== undefined) return `the audit is incomplete: ${incomplete}`;
  return objects === 0 ? `matched no existing object ${relative(checkedAt, now)}` : '';
}

/** To the minute, in UTC; a dash if unknown. @param time RFC 3339 */
export const minute = (time: string | undefined): string =>
  time === undefined ? '–' : time.replace(/T(\d\d:\d\d).*$/, ' $1Z');

export function timeScale(...times: readonly [Date, ...Date[]]) {
  const start = Math.min(...times.map(Number));
  const end = Math.max(...times.map(Number));
  const shareOf = (time: Date): number =>
    end === start ? 0 : Math.min(1, Math.max(0, (Number(time) - start) / (end - start)));
  return { from: new Date(start), to: new Date(end), shareOf };
}

/** Bars with one time scale, and a mark at the current time. @param width in characters, at least 2 */
export function timeLine(
  lifetimes: readonly { readonly from: Date; readonly to: Date; readonly stroke: string }[],
  now: Date,
  width: number,
) {
  const scale = timeScale(now, ...lifetimes.flatMap(({ from, to }) => [from, to]));
  const columnOf = (time: Date): number => Math.min(width - 1, Math.floor(scale.shareOf(time) * width));
  const at = columnOf(now);
  const bars = lifetimes.map(({ from, to, stroke }) => {
    const [first, last] = [columnOf(from), columnOf(to)];
    return Array.from({ length: width }, (_none, column) => {
      if (column === at) return '|';
      return column >= first && column <= last ? stroke : '.';
    }).join('');
  });
  return { bars, from: scale.from, to: scale.to };
}
