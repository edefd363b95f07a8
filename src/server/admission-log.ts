import type { Decision } from '../admission/review/decision.ts';
import type { AdmissionRequest } from '../admission/review/request.ts';
import type { Log } from '../log.ts';
import type { Outcome } from './metrics/metrics.ts';

/** Without `debug`, routine reviews are not logged: there is one for every write to the cluster. */
export type ReviewLog = Omit<Log, 'debug'> & { readonly debug?: Log['debug'] | undefined };

export interface PendingReview {
  readonly webhook: 'mutate' | 'validate';
  readonly entry: string;
  readonly request: AdmissionRequest;
  readonly started: number;
}

export function toLogFields(
  { webhook, entry, request }: PendingReview,
  outcome: Outcome,
  seconds: number,
): object {
  const { uid, operation, resource, subResource, namespace, name, userInfo, dryRun } = request;
  const fields = {
    webhook,
    entry,
    uid,
    operation,
    resource: subResource === '' ? resource.resource : `${resource.resource}/${subResource}`,
    group: resource.group,
    namespace,
    name,
    user: userInfo.username,
    outcome,
    ms: Math.round(seconds * 1e6) / 1e3,
  };
  return dryRun ? { ...fields, dryRun } : fields;
}

export function isRoutine(decision: Decision): boolean {
  return (
    decision.kind === 'allow' &&
    decision.warnings.length === 0 &&
    Object.keys(decision.auditAnnotations).length === 0
  );
}

export const toDecisionFields = (review: PendingReview, decision: Decision, seconds: number): object => ({
  ...toLogFields(review, decision.kind, seconds),
  ...detailOf(decision),
});

function detailOf(decision: Decision): object {
  switch (decision.kind) {
    case 'allow': {
      const { patch, warnings, auditAnnotations } = decision;
      return {
        ...(patch.length > 0 ? { patched: patch.map(({ path }) => path) } : {}),
        ...(warnings.length > 0 ? { warnings } : {}),
        ...(Object.keys(auditAnnotations).length > 0 ? { audit: auditAnnotations } : {}),
      };
    }
    case 'deny':
      return { reason: decision.reason, message: decision.message };
    case 'retry':
      return { message: decision.message, ...(decision.cause === undefined ? {} : { err: decision.cause }) };
  }
}
