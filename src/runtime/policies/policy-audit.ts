/** On the leader: checks stored objects against the policies, hourly and when a policy changes. */
import { hasAudit } from '../../admission/policy/audit.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { AuditWorld } from '../../admission/policy/world.ts';
import { collectFindings, type PolicyFindings } from '../../admission/reports/findings.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { Log } from '../../log.ts';
import { counted } from '../../json/counted.ts';
import { keyOf } from '../../json/kube-object.ts';
import type { Store } from '../../kube/store.ts';
import {
  AWAIT_CHANGE,
  GONE,
  regarding,
  requeueIn,
  startController,
  type LeaderContext,
  type Reconcile,
  type RecordEvent,
} from '../controller.ts';
import type { Policies, PolicyRegistry } from './policy-registry.ts';
import {
  storedObjects,
  scanStored,
  type AuditResult,
  type AuditSources,
  type Violator,
} from './stored-objects.ts';

export interface Audit {
  readonly result?: AuditResult;
  readonly findings?: PolicyFindings;
  /** Its PolicyExceptions have changed since. */
  readonly isOutdated?: boolean;
}

export interface PolicyAuditOptions extends AuditSources {
  readonly policies: Pick<Store<AdmissionPolicy>, 'get'>;
  readonly registry: Pick<PolicyRegistry, 'get'>;
  readonly audits: Map<string, Audit>;
  readonly keepsFindings: boolean;
  readonly onResult: (name: string) => void;
  readonly record: RecordEvent;
  readonly random: () => number;
  readonly log: Log;
}

/** Interval between audits of an unchanged policy, in milliseconds. Up to a tenth is added, to spread the audits. */
const EVERY_MS = 60 * 60_000;
/** The shortest interval for deferred references, in milliseconds: each audit reads all objects of the kind. */
const SHORTEST_MS = 60_000;
const RETRY_MS = 5 * 60_000;
const MAX_EVENTS = 20;
/** Limit for the findings that all audits keep for the policy reports, which cannot hold more. */
const MAX_FINDINGS = 10_000;
const MIN_FINDINGS = 500;
/** Limit for live reads in one audit. Otherwise, if every object violates the policy, the audit reads each one. */
const MAX_LIVE_READS = 1_000;
/** Timeout of an audit, in milliseconds. Reading 100,000 objects takes a minute or two. */
const TIMEOUT_MS = 10 * 60_000;

export function createPolicyAuditReconciler(options: PolicyAuditOptions): Reconcile {
  const { audits, keepsFindings, onResult } = options;
  return async (name, signal) => {
    const policy = options.policies.get(name);
    const inForce = options.registry.get(name)?.inForce;
    if (policy === undefined) return GONE;
    if (inForce === undefined || inForce.undecidable !== undefined) return AWAIT_CHANGE;
    if (!hasAudit(inForce)) {
      audits.delete(name);
      onResult(name);
      return AWAIT_CHANGE;
    }
    const due = dueAt(policy, inForce, options);
    if (due > options.now().getTime()) return { kind: 'requeue', at: new Date(due) };
    audits.set(name, { ...audits.get(name), isOutdated: false }); // a change during the audit counts as a new one
    const violators: Violator[] = [];
    const findings = collectFindings(inForce, findingsLeft(inForce, options));
    const keep = (violator: Violator) => {
      findings.add(violator.object, violator.violations);
      if (violators.length < MAX_EVENTS) violators.push(violator);
    };
    const sources = { ...options, world: withReadLimit(options.world) };
    const result = await scanStored(inForce, sources, keep, signal);
    const kept = keepsFindings ? { findings: findings.end(result.message) } : {};
    audits.set(name, { ...audits.get(name), result, ...kept });
    onResult(name);
    publish(policy, result, violators, options);
    const next = result.message === undefined ? withJitter(everyMs(inForce), options) : RETRY_MS;
    return requeueIn(next, options.now());
  };
}

function findingsLeft({ name }: CompiledPolicy, { audits, keepsFindings }: PolicyAuditOptions): number {
  if (!keepsFindings) return 0;
  const others = [...audits].filter(([policy]) => policy !== name);
  const left = others.reduce((sum, [, { findings }]) => sum - (findings?.listed.length ?? 0), MAX_FINDINGS);
  return Math.max(MIN_FINDINGS, left);
}

/** Reads the last audit from the status, so that a new leader does not repeat it. */
function dueAt({ status }: AdmissionPolicy, inForce: CompiledPolicy, options: PolicyAuditOptions): number {
  const last = status?.violations;
  if (last?.checkedAt === undefined || last.message !== undefined) return 0;
  if (last.generation !== inForce.generation) return 0;
  // The status has only counts, so a new leader audits again for the reports.
  const audit = options.audits.get(inForce.name);
  if (options.keepsFindings && audit?.findings === undefined) return 0;
  // Users who may write exceptions must not cause one audit after another.
  if (audit?.isOutdated === true) return Date.parse(last.checkedAt) + SHORTEST_MS;
  const every = everyMs(inForce);
  return Date.parse(last.checkedAt) + withJitter(every, options) - Math.min(SLACK_MS, every / 10);
}

function everyMs({ initiallyDeferred }: CompiledPolicy): number {
  if (initiallyDeferred === undefined) return EVERY_MS;
  return Math.min(EVERY_MS, Math.max(SHORTEST_MS, initiallyDeferred.graceMs));
}

/** A requeue may fire slightly early by the clock that wrote `checkedAt`. */
const SLACK_MS = 60_000;
const withJitter = (ms: number, { random }: PolicyAuditOptions): number => ms * (1 + 0.1 * random());

function withReadLimit(world: AuditWorld): AuditWorld {
  let left = MAX_LIVE_READS;
  const limited =
    <Arguments extends readonly unknown[], Result>(read: (...given: Arguments) => Promise<Result>) =>
    (...given: Arguments): Promise<Result> => {
      left -= 1;
      if (left < 0)
        return Promise.reject(new Error('too many suspected violations to confirm: the count is incomplete'));
      return read(...given);
    };
  return { ...world, confirm: limited(world.confirm), read: limited(world.read) };
}

function publish(
  policy: AdmissionPolicy,
  result: AuditResult,
  violators: readonly Violator[],
  { record, log }: PolicyAuditOptions,
): void {
  const { name = '' } = policy.metadata;
  const before = policy.status?.violations;
  log.info({ policy: name, ...result }, 'audited stored objects');
  for (const { object, violations } of violators) {
    record({
      regarding: regarding(object),
      type: 'Warning',
      reason: 'PolicyViolation',
      message: `${violations.map(describe).join('; ')} (policy ${name})`.slice(0, 1024),
    });
  }
  const { total, objects = 0, checked = 0, message } = result;
  if (before?.total === total && before.message === message) return;
  const isClean = total === 0 && message === undefined;
  record({
    regarding: regarding(policy),
    type: isClean ? 'Normal' : 'Warning',
    reason: isClean ? 'NoViolations' : total > 0 ? 'ViolationsFound' : 'AuditIncomplete',
    message:
      message ?? `${counted(total, 'violation')} in ${objects} of ${counted(checked, 'stored object')}`,
  });
}

const describe = ({ field, message }: { readonly field: string; readonly message: string }): string =>
  field === '' ? message : `${field}: ${message}`;

export function startPolicyAudit(
  context: LeaderContext,
  { registry, policies, world }: Policies & { readonly world: AuditWorld },
  onResult: (name: string) => void,
  signal: AbortSignal,
) {
  const { client, discovery, config, namespaces, serverClock, metrics, record, log } = context;
  const { now } = serverClock;
  const audits = new Map<string, Audit>();
  const reconcile = createPolicyAuditReconciler({
    stored: storedObjects(client, discovery, config.namespace, namespaces),
    policies: policies.store,
    registry,
    world,
    record,
    log,
    audits,
    onResult,
    now,
    keepsFindings: config.policyReports,
    random: Math.random,
  });
  const key = policies.store.list().map(keyOf);
  const options = { name: 'policy-audit', timeoutMs: TIMEOUT_MS, key, reconcile, serverNow: now };
  const controller = startController(context, options, signal);
  registry.subscribe((name) => {
    if (registry.get(name) === undefined) {
      audits.delete(name);
      onResult(name);
    }
    controller.add(name);
  }, signal);
  const results = () =>
    [...audits].flatMap(([name, { result }]) => (result === undefined ? [] : [[name, result] as const]));
  metrics.scrape({ policyViolations: () => new Map(results()) }, signal);
  return {
    audits,
    result: (name: string): AuditResult | undefined => audits.get(name)?.result,
    refresh: (name: string): void => {
      audits.set(name, { ...audits.get(name), isOutdated: true });
      controller.add(name);
    },
    stopped: controller.stopped,
  };
}
