/** The cells of the report that terminal and status page show alike. */
import type { GenerationRow } from './report/authority.ts';
import type { InjectionTargetRow } from './report/injection-targets.ts';
import type { PolicyRow } from './report/policies.ts';
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

/** When the active generation is replaced; empty if unknown. */
export function nextGeneration(generations: readonly GenerationRow[], now: Date): string {
  const { rotationAt } = generations.find(({ state }) => state === 'active') ?? {};
  return rotationAt === undefined ? '' : `; the next generation is due ${relative(rotationAt, now)}`;
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
  const { namespace, name, service, state, notAfter, renewAt } = cert;
  return [
    plain(`${namespace}/${name}`),
    plain(service),
    { text: state, tone: CERT_TONES[state] },
    plain(relative(notAfter, now)),
    plain(renewAt === undefined && notAfter !== undefined ? 'with the CA' : relative(renewAt, now)),
  ];
}

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
