/** Judges each response of the API server and each stored object, without code of Gatehouse. */
import { DEFAULT_TIER, MOST_UNITS, STAMP, type Machine, type MachineSpec } from './kinds.ts';

/** The expected result of a request. `because` is a text that the rejection must contain. */
export type Expected = { readonly kind: 'accept' } | { readonly kind: 'refuse'; readonly because: string };

export interface Heard {
  /** The HTTP status; undefined when the connection broke, or the kind was not served. */
  readonly code: number | undefined;
  readonly message: string;
  readonly object?: Partial<Machine> | undefined;
}

export type Judged =
  | { readonly kind: 'right' }
  | { readonly kind: 'wrong'; readonly why: string }
  /** The API server called admission and got no decision, so the write failed. */
  | { readonly kind: 'undecided'; readonly why: string }
  /** The request did not reach admission, or failed after it. */
  | { readonly kind: 'not-asked'; readonly why: string };

const RIGHT: Judged = { kind: 'right' };
const wrong = (why: string): Judged => ({ kind: 'wrong', why });

const CALL_FAILED = /failed calling (?:admission )?webhook|failed to call (?:admission )?webhook/;
const REFUSED = /admission webhook "[^"]+" denied the request/;

export function judgeAnswer(
  expected: Expected,
  heard: Heard,
  sent: MachineSpec | undefined,
  stamps: readonly string[],
): Judged {
  const { code, message, object } = heard;
  if (code === undefined) return { kind: 'not-asked', why: message };
  if (code < 300) {
    if (expected.kind === 'refuse') return wrong(`accepted, though it is invalid: ${expected.because}`);
    return sent === undefined ? RIGHT : judgeChanges(object ?? {}, sent, stamps);
  }
  if (CALL_FAILED.test(message)) return { kind: 'undecided', why: message };
  if (!REFUSED.test(message)) return { kind: 'not-asked', why: `${code} ${message}` };
  if (code === 429 || code >= 500) return { kind: 'undecided', why: `${code} ${message}` };
  if (expected.kind === 'accept') return wrong(`refused, though it is valid: ${message}`);
  return message.includes(expected.because)
    ? RIGHT
    : wrong(`refused, but not for ${expected.because}: ${message}`);
}

/** Checks that an accepted Machine equals the sent one plus the changes of the policy. */
function judgeChanges(object: Partial<Machine>, sent: MachineSpec, stamps: readonly string[]): Judged {
  const difference = differenceOf(object.spec ?? {}, afterDefaults(sent));
  if (difference !== undefined) return wrong(`accepted, but ${difference}`);
  const stamp = stampOf(object);
  return stamps.includes(stamp)
    ? RIGHT
    : wrong(`accepted, but its stamp is "${stamp}" instead of ${stamps.join(' or ')}`);
}

export const afterDefaults = (spec: MachineSpec): MachineSpec => ({
  ...spec,
  tier: spec.tier ?? DEFAULT_TIER,
});

export function differenceOf(found: MachineSpec, wanted: MachineSpec): string | undefined {
  for (const field of ['rack', 'tier', 'units', 'serial', 'note'] as const) {
    const [is, should] = [found[field], wanted[field]];
    if (is !== should) return `spec.${field} is ${shown(is)} instead of ${shown(should)}`;
  }
  return undefined;
}

const shown = (value: unknown): string =>
  (JSON.stringify(value) as string | undefined)?.slice(0, 60) ?? 'absent';

const stampOf = (object: Partial<Machine>): string => object.metadata?.labels?.[STAMP] ?? '';

/** Finds the problems of stored Machines in one snapshot. `racks` contains the names of existing Racks. */
export function problemsOfStored(
  machines: readonly Machine[],
  racks: ReadonlySet<string>,
  stamps: ReadonlySet<string>,
): readonly StoredProblem[] {
  const holders = new Map<string, string>();
  return machines.flatMap((one): readonly StoredProblem[] => {
    const name = nameOf(one);
    const { rack, tier, units = 0, serial } = one.spec;
    const why: string[] = [];
    if (rack === undefined) why.push('it does not reference a rack');
    if (units > MOST_UNITS) why.push(`it has ${units} units`);
    if (tier === undefined) why.push('its tier is missing');
    if (!stamps.has(stampOf(one))) why.push(`its stamp is "${stampOf(one)}"`);
    const holder = serial === undefined ? undefined : holders.get(serial);
    if (holder !== undefined) why.push(`its serial ${String(serial)} is also that of ${holder}`);
    if (serial !== undefined) holders.set(serial, name);
    const dangles = rack !== undefined && !racks.has(rack);
    return [
      ...why.map((one) => ({ name, why: one, rack: undefined })),
      ...(dangles ? [{ name, why: `its rack ${rack} does not exist`, rack }] : []),
    ];
  });
}

export interface StoredProblem {
  readonly name: string;
  readonly why: string;
  /** The missing Rack, which may have been created after the list of Racks was read. */
  readonly rack: string | undefined;
}

export const nameOf = ({ metadata }: Pick<Machine, 'metadata'>): string =>
  `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;

interface Trouble {
  readonly what: string;
  readonly why: string;
  readonly from: number;
  readonly to: number;
}

export type Counts = ReturnType<Tally['take']>;

export interface Outage {
  readonly from: number;
  to: number | undefined;
}

export type Tally = ReturnType<typeof createTally>;

const TIMED_OUT = /context deadline exceeded|Client\.Timeout exceeded/;

export function createTally() {
  let requests = 0;
  let undecided: Trouble[] = [];
  let wrong: Trouble[] = [];
  return {
    record: (what: string, judged: Judged, from: number, to: number) => {
      requests += 1;
      if (judged.kind !== 'right')
        (judged.kind === 'wrong' ? wrong : undecided).push({ what, why: judged.why, from, to });
    },
    wrongStored: (what: string, why: string) => {
      const now = performance.now();
      wrong.push({ what, why, from: now, to: now });
    },
    take: (outages: readonly Outage[]) => {
      const { true: notAsked = [], false: failed = [] } = Object.groupBy(undecided, (one) =>
        String(outages.some(({ from, to = Infinity }) => one.from <= to && one.to >= from)),
      );
      /** Webhook calls that timed out, as on an overloaded machine. */
      const timedOut = failed.filter(({ why }) => TIMED_OUT.test(why)).length;
      const counts = { requests, failed, timedOut, notAsked, wrong };
      requests = 0;
      [undecided, wrong] = [[], []];
      return counts;
    },
  };
}
