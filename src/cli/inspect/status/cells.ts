/** The cells of the report that terminal and status page show alike. */
import type { ServedCertsReport, StaleRow } from '../../../runtime/endpoints/report.ts';
import type { GenerationRow } from './report/authority.ts';
import type { InjectionTargetRow } from './report/injection-targets.ts';
import type { PolicyRow } from './report/policies.ts';
import type { HandlerRow } from './report/handlers.ts';
import { namedPods } from './report/served-certs.ts';
import type { ServingCertRow } from './report/serving-certs.ts';
import { minute, relative } from './time-line.ts';

/** A judgement of a state. The terminal has a colour for each, the status page a style. */
export type Tone = 'good' | 'warn' | 'bad' | 'rest';

export interface StatusCell {
  readonly text: string;
  readonly tone?: Tone;
}

export const plain = (text: string): StatusCell => ({ text });

const GENERATION_TONES = { pending: 'warn', active: 'good', retiring: 'rest', trusted: 'good' } as const;

export const generationTone = ({ state, expired }: GenerationRow): Tone =>
  expired ? 'bad' : GENERATION_TONES[state];

/** @param daysOnly without the time of day */
export function generationCells(
  generation: GenerationRow,
  now: Date,
  daysOnly = false,
): readonly StatusCell[] {
  const { id, state, expired, notBefore, notAfter } = generation;
  return [
    plain(id),
    { text: expired ? `${state}, expired` : state, tone: generationTone(generation) },
    ...[notBefore, notAfter].map((time) => plain(daysOnly ? time.slice(0, 10) : minute(time))),
    plain(relative(notAfter, now)),
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

/** E.g. `c625d969 starts signing in 9m (17:44Z)`. */
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

export function servingCertCells(cert: ServingCertRow, now: Date): readonly StatusCell[] {
  const { namespace, name, service, purpose, state, notAfter, renewAt } = cert;
  return [
    plain(`${namespace}/${name}`),
    plain(purpose === 'client' ? `${service} (client)` : service),
    { text: state, tone: CERT_TONES[state] },
    plain(relative(notAfter, now)),
    plain(renewAt === undefined && notAfter !== undefined ? 'with the CA' : relative(renewAt, now)),
  ];
}

/** E.g. `298 current, 2 stale, 0 foreign, 1 unreachable`. */
export const endpointCounts = (endpoints: ServedCertsReport['endpoints']): string =>
  Object.entries(endpoints)
    .map(([state, count]) => `${count} ${state}`)
    .join(', ');

export const staleCells = (row: StaleRow, now: Date): readonly StatusCell[] => [
  plain(`${row.namespace}/${row.service}`),
  plain(row.secret),
  { text: relative(row.since, now), tone: 'bad' },
  plain(relative(row.notAfter, now)),
  plain(namedPods(row)),
];

const TARGET_TONES = {
  Current: 'good',
  Stale: 'bad',
  Invalid: 'bad',
  Empty: 'rest',
  Unknown: 'warn',
} as const;

export const targetCells = ({ state, source }: InjectionTargetRow): readonly StatusCell[] => [
  { text: state, tone: TARGET_TONES[state] },
  plain(source),
];

/** E.g. `quota (validates), team (mutates, validates)`. */
export const describeHandlers = (handlers: readonly HandlerRow[]): string =>
  handlers
    .map(({ name, mutates, validates }) => {
      const does = [...(mutates ? ['mutates'] : []), ...(validates ? ['validates'] : [])];
      return `${name} (${does.join(', ')})`;
    })
    .join(', ');

const CONDITION_TONES = { True: 'good', False: 'bad', Unknown: 'warn' } as const;

export const policyCells = (policy: PolicyRow): readonly StatusCell[] => [
  plain(policy.name),
  ...[policy.ready, policy.webhooksInstalled].map((is) => ({ text: is, tone: CONDITION_TONES[is] })),
  plain(policy.enforcement),
];
