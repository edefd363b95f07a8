/** Leader: what is stored, judged by the policies. */
import { createPolicyAuditReconciler, type AuditResult } from './policy-audit.ts';
import type { RecordEvent } from '../reconcile.ts';
import { keyOf } from '../../kube/object.ts';
import type { Context } from '../context.ts';
import { startController } from '../controller.ts';
import type { ReplicaParts } from '../webhook-process.ts';
import { storedObjects } from './stored-objects.ts';

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
