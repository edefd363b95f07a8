/** The cells of the report that terminal and status page show alike. */
import type { ServedCertsReport, StaleRow } from '../../../runtime/endpoints/report.ts';
import type { GenerationRow } from './report/authority.ts';
import type { InjectionTargetRow } from './report/injection-targets.ts';
import type { PolicyRow } from './report/policies.ts';
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

export function generationCells(generation: GenerationRow, now: Date): readonly StatusCell[] {
  const { id, state, expired, notBefore, notAfter } = generation;
  return [
    plain(id),
    { text: expired ? `${state}, expired` : state, tone: generationTone(generation) },
    ...[minute(notBefore), minute(notAfter), relative(notAfter, now)].map(plain),
  ];
}

/** When the active generation is replaced, and the old ones are removed; empty if unknown. */
export function nextGeneration(generations: readonly GenerationRow[], now: Date): string {
  const { rotationAt } = generations.find(({ state }) => state === 'active') ?? {};
  const next = rotationAt === undefined ? '' : `; the next generation is due ${relative(rotationAt, now)}`;
  const retirements = generations.flatMap(({ id, retiresAt }) =>
    retiresAt === undefined
      ? []
      : `; ${id} is removed ${relative(retiresAt, now)}: restart before then what loads certificates only at start`,
  );
  return `${next}${retirements.at(-1) ?? ''}`;
}

export const CERT_TONES = {
  Valid: 'good',
  RenewalDue: 'warn',
  Overdue: 'bad',
  Expired: 'bad',
  UnknownSigner: 'bad',
  Unusable: 'bad',
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

const CONDITION_TONES = { True: 'good', False: 'bad', Unknown: 'warn' } as const;

export const policyCells = (policy: PolicyRow): readonly StatusCell[] => [
  plain(policy.name),
  ...[policy.ready, policy.webhooksInstalled].map((is) => ({ text: is, tone: CONDITION_TONES[is] })),
  plain(policy.enforcement),
];
