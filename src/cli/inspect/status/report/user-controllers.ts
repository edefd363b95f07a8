/** The controllers of users, from the state that the leader publishes. */
import { counted } from '../../../../json/counted.ts';
import type { LeaseObject } from '../../../../kube/lease/lease-record.ts';
import type { ConfigMap } from '../../../../runtime/certificates/ca-bundle.ts';
import {
  CONTROLLERS_CONFIGMAP,
  parseState,
  type FormerController,
  type MissingKind,
  type PublishedController,
} from '../../../../runtime/controllers/published.ts';
import { unreadOf, valueOf, type Judged, type Listing, type Reading } from '../../read-cluster/reading.ts';
import { age } from '../times.ts';
import { leaseState } from './leader.ts';

export interface UserControllersPart extends Listing<PublishedController> {
  readonly leader?: string;
  /** When the state was written: it changes only if the controllers do something. */
  readonly checkedAt?: string;
  /** Why the state is out of date. Undefined: the replica that wrote it still leads. */
  readonly stale?: string | undefined;
  readonly omitted: number;
  readonly former: readonly FormerController[];
}

export interface ControllerProblem {
  readonly object: string;
  readonly message: string;
  readonly next: string;
}

const MANIFESTS = 'apply the output of "gatehouse manifests --handlers"';

export function userControllersPart(
  configMap: Reading<ConfigMap | undefined>,
  lease: Reading<LeaseObject | undefined>,
  namespace: string,
  now: Date,
): Judged<UserControllersPart> & { readonly details: readonly ControllerProblem[] } {
  const what = `ConfigMap ${namespace}/${CONTROLLERS_CONFIGMAP}`;
  const nothing = { items: [], omitted: 0, former: [] };
  const live = valueOf(configMap);
  if (live === undefined)
    return { part: { unread: unreadOf(what, configMap), ...nothing }, problems: [], details: [] };
  const state = parseState(live);
  if (state === undefined) {
    const message = 'its content is not valid: the leader replaces it within 10 min, or when it starts';
    return { part: { unread: [{ what, reason: 'Failed', message }], ...nothing }, problems: [], details: [] };
  }
  const { leader, at: checkedAt, controllers: items, ...others } = state;
  const stale = items.length === 0 ? undefined : staleness(leader, lease, now);
  const outdated = stale && {
    object: 'Controllers',
    next: 'see the leader',
    message: `${stale}; ${asOf(checkedAt, now)}`,
  };
  const details = [...(outdated ? [outdated] : []), ...items.flatMap((one) => problemsOf(one, now))];
  const problems = details.map(({ object, message, next }) => ({ object, message: `${message}: ${next}` }));
  return { part: { unread: [], leader, checkedAt, stale, items, ...others }, problems, details };
}

export const asOf = (checkedAt: string | undefined, now: Date): string =>
  `this is the state of ${age(checkedAt, now)} ago`;

function staleness(leader: string, lease: Reading<LeaseObject | undefined>, now: Date): string | undefined {
  if (lease.kind === 'unread') return undefined; // reported with the leader
  const { holderIdentity = '' } = lease.value?.spec ?? {};
  if (leaseState(lease.value, now) !== 'Held') return `${leader} wrote the state, and no replica leads now`;
  if (holderIdentity !== leader)
    return `${leader} wrote the state, and ${holderIdentity}, which leads now, has not written it yet`;
  return undefined;
}

/** How long a pass may exceed its timeout: it writes the status, and the code of the author gets time to end. */
const GRACE_S = 60;

function problemsOf(row: PublishedController, now: Date): readonly ControllerProblem[] {
  if (row.lentTo !== undefined) return [];
  const object = `Controller ${row.name}`;
  const { oldestPass, timeoutSeconds } = row;
  const runsFor = oldestPass === undefined ? 0 : (now.getTime() - Date.parse(oldestPass.at)) / 1_000;
  const stuck =
    oldestPass !== undefined && runsFor > timeoutSeconds + GRACE_S
      ? [
          {
            object,
            message: `a pass over ${oldestPass.object} has run for ${age(oldestPass.at, now)}, and its timeout is ${timeoutSeconds} s`,
            next: 'pass "signal" to every call, and await everything',
          },
        ]
      : [];
  return [
    ...row.missing.map((one) => ({ object, ...missingProblem(one, row.watches) })),
    ...stuck,
    ...KINDS.flatMap((kind) => troubleProblem(object, row, kind)),
  ];
}

function missingProblem({ kind, why, message }: MissingKind, watched: string) {
  const effect = kind === watched ? 'so it reconciles nothing' : 'so it works without this kind';
  const [resource = '', ...group] = kind.split('.');
  const rule = { apiGroups: [group.join('.')], resources: [resource], verbs: ['get', 'list', 'watch'] };
  const next = {
    NotServed: `create its CustomResourceDefinition (kubectl get crd ${kind}), or remove the controller`,
    Forbidden: `${MANIFESTS}, which grants the rule ${JSON.stringify(rule)}`,
    Failed: 'check the API server and the log of the leader',
  }[why];
  const seen = why === 'NotServed' ? `the API server does not serve ${kind}` : `${kind} cannot be read`;
  return { message: `${seen}, ${effect}${why === 'NotServed' ? '' : ` (${message})`}`, next };
}

const KINDS = ['failing', 'delayed', 'stalled'] as const;
const NEXT = {
  failing: 'correct the cause; the pass is repeated by itself, with a delay of 5 min at most',
  delayed: 'apply the same in each pass, or look for another writer in metadata.managedFields',
  stalled: 'correct the object',
} as const;
const WHAT = {
  failing: 'failed in its last pass',
  delayed: 'keeps changing, so its passes are delayed',
  stalled: 'waits for a user',
} as const;

function troubleProblem(
  object: string,
  row: PublishedController,
  kind: (typeof KINDS)[number],
): readonly ControllerProblem[] {
  const count = row[kind];
  if (count === 0) return [];
  const known = row.troubles.filter((one) => one.kind === kind);
  const named = known.map((one) => `${one.object} since ${one.since} (${one.reason}: ${one.message})`);
  const left = count - known.length;
  const examples = left > 0 && known.length > 0 ? [...named, `and ${left} more`] : named;
  const details = examples.length === 0 ? '' : `: ${examples.join('; ')}`;
  return [{ object, message: `${counted(count, 'object')} ${WHAT[kind]}${details}`, next: NEXT[kind] }];
}
