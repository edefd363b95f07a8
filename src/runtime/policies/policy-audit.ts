/**
 * On the leader: what is stored already is checked by the policies too, whenever one changes and hourly. The counts go into the
 * policy's status, the details into Events, so that people see what an upgrade or a stricter rule would meet.
 */
import { hasAudit } from '../../admission/policy/audit.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { Circumstances } from '../../admission/policy/world.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { scanStored, type AuditResult, type AuditScanDeps, type Culprit } from './audit-scan.ts';
import type { Log } from '../../log.ts';
import {
  AWAIT_CHANGE,
  GONE,
  requeueIn,
  type Reconcile,
  type RecordEvent,
  startController,
} from '../controller.ts';
import { keyOf } from '../../json/kube-object.ts';
import type { Context } from '../context.ts';
import type { ReplicaParts } from '../webhook-process.ts';
import { storedObjects } from './stored-objects.ts';

export type { AuditResult } from './audit-scan.ts';

export interface PolicyAuditDeps extends AuditScanDeps {
  readonly policy: (name: string) => AdmissionPolicy | undefined;
  /** What is enforced of it. */
  readonly inForce: (name: string) => CompiledPolicy | undefined;
  readonly report: (name: string, result: AuditResult) => void;
  readonly record: RecordEvent;
  /** 0 to 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** How often what did not change is looked at again, in milliseconds; up to a tenth is added, so that policies take turns. */
const EVERY_MS = 60 * 60_000;
/** However soon deferred references are to be looked at, in milliseconds: each time all objects of the kind are read. */
const LEAST_MS = 60_000;
/** A kind that could not be read may be readable now. */
const RETRY_MS = 5 * 60_000;
/** Objects that get an Event of their own in one audit. */
const MOST_EVENTS = 20;
/** Live reads of one audit: a cluster in which everything is wrong must not be read object by object. */
const MOST_LIVE_READS = 1_000;

export function createPolicyAuditReconciler(deps: PolicyAuditDeps): Reconcile {
  return async (name, signal) => {
    const policy = deps.policy(name);
    const inForce = deps.inForce(name);
    if (policy === undefined) return GONE;
    if (inForce === undefined || !hasAudit(inForce)) return AWAIT_CHANGE;
    const due = dueAt(policy, inForce, deps);
    if (due > deps.now().getTime()) return { kind: 'requeue', at: new Date(due) };
    const found = await audit(inForce, deps, signal);
    deps.report(name, found.result);
    tell(policy, found, deps);
    const next = found.result.message === undefined ? withJitter(everyMs(inForce), deps) : RETRY_MS;
    return requeueIn(next, deps.now());
  };
}

/** A leader that has just begun need not repeat what the one before it did a moment ago. */
function dueAt({ status }: AdmissionPolicy, inForce: CompiledPolicy, deps: PolicyAuditDeps): number {
  const last = status?.violations;
  if (last?.checkedAt === undefined || last.message !== undefined) return 0;
  if (last.generation !== inForce.generation) return 0;
  const every = everyMs(inForce);
  return Date.parse(last.checkedAt) + withJitter(every, deps) - Math.min(SLACK_MS, every / 10);
}

/** What was let in on the promise that it will be looked at is looked at when its time is over. */
function everyMs({ initiallyDeferred }: CompiledPolicy): number {
  if (initiallyDeferred === undefined) return EVERY_MS;
  return Math.min(EVERY_MS, Math.max(LEAST_MS, initiallyDeferred.graceMs));
}

/** A requeue may come a moment early by the clock that wrote `checkedAt`. */
const SLACK_MS = 60_000;
const withJitter = (ms: number, { random }: PolicyAuditDeps): number => ms * (1 + 0.1 * random());

interface Found {
  readonly result: AuditResult;
  /** The first of them. */
  readonly culprits: readonly Culprit[];
}

async function audit(inForce: CompiledPolicy, deps: PolicyAuditDeps, signal: AbortSignal): Promise<Found> {
  const culprits: Culprit[] = [];
  const keep = (culprit: Culprit) => {
    if (culprits.length < MOST_EVENTS) culprits.push(culprit);
  };
  const result = await scanStored(inForce, { ...deps, world: frugal(deps.world) }, keep, signal);
  return { result, culprits };
}

const describe = ({ field, message }: { readonly field: string; readonly message: string }): string =>
  field === '' ? message : `${field}: ${message}`;

function frugal(world: Circumstances['world']): Circumstances['world'] {
  let left = MOST_LIVE_READS;
  const limited =
    <Arguments extends readonly unknown[], Result>(read: (...given: Arguments) => Promise<Result>) =>
    (...given: Arguments): Promise<Result> => {
      left -= 1;
      if (left < 0)
        return Promise.reject(new Error('too much seems wrong to be confirmed; the count is incomplete'));
      return read(...given);
    };
  return { ...world, confirm: limited(world.confirm), read: limited(world.read) };
}

function tell(policy: AdmissionPolicy, { result, culprits }: Found, { record, log }: PolicyAuditDeps): void {
  const { name = '', uid } = policy.metadata;
  const before = policy.status?.violations;
  log.info({ policy: name, ...result }, 'audited what is stored');
  for (const { object, violations } of culprits) {
    const { name: of = '', namespace, uid: id } = object.metadata ?? {};
    record({
      regarding: {
        apiVersion: object.apiVersion ?? '',
        kind: object.kind ?? '',
        name: of,
        ...(namespace === undefined ? {} : { namespace }),
        ...(id === undefined ? {} : { uid: id }),
      },
      type: 'Warning',
      reason: 'PolicyViolation',
      message: `${violations.map(describe).join('; ')} (policy ${name})`.slice(0, 1024),
    });
  }
  if (before?.total === result.total && before.message === result.message) return;
  record({
    regarding: {
      apiVersion: policy.apiVersion ?? '',
      kind: policy.kind ?? '',
      name,
      ...(uid === undefined ? {} : { uid }),
    },
    type: result.total > 0 || result.message !== undefined ? 'Warning' : 'Normal',
    reason:
      result.total > 0
        ? 'ViolationsFound'
        : result.message === undefined
          ? 'NoViolations'
          : 'AuditIncomplete',
    message:
      result.message ??
      `${result.total} violations in ${result.objects ?? 0} of ${result.checked ?? 0} stored objects`,
  });
}

/** Leader: what is stored, judged by the policies. */
export interface PolicyAudit {
  readonly result: (name: string) => AuditResult | undefined;
  readonly stopped: Promise<void>;
}

/** An audit reads everything that a policy governs: 100,000 objects take a minute or two. */
const AUDIT_MS = 10 * 60_000;

export function startPolicyAudit(
  context: Context,
  { registry, policies, world }: Pick<ReplicaParts, 'registry' | 'policies' | 'world'>,
  record: RecordEvent,
  onResult: (name: string) => void,
  signal: AbortSignal,
): PolicyAudit {
  const results = new Map<string, AuditResult>();
  const controller = startController(
    context,
    {
      name: 'policy-audit',
      timeoutMs: AUDIT_MS,
      reconcile: createPolicyAuditReconciler({
        ...storedObjects(context),
        world,
        policy: (name) => policies.store.get(name),
        inForce: (name) => registry.get(name)?.inForce,
        report: (name, result) => {
          results.set(name, result);
          onResult(name);
        },
        record,
        now: () => new Date(),
        random: Math.random,
        log: context.log,
      }),
    },
    signal,
  );
  registry.subscribe((name) => {
    if (registry.get(name) === undefined) results.delete(name);
    controller.add(name);
  }, signal);
  for (const policy of policies.store.list()) controller.add(keyOf(policy));
  context.metrics.policyViolations(() => [...results].map(([policy, { total }]) => ({ policy, total })));
  signal.addEventListener('abort', () => {
    context.metrics.policyViolations(undefined);
  });
  return { result: (name) => results.get(name), stopped: controller.stopped };
}
