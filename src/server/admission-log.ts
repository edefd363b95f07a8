/** What the log says of each admission: who, what, and how it went. Objects never. */
import type { Decision } from '../admission/decision.ts';
import type { AdmissionRequest } from '../admission/request.ts';
import type { Outcome } from './metrics.ts';

export interface Answered {
  readonly webhook: 'mutate' | 'validate';
  readonly entry: string;
  readonly request: AdmissionRequest;
}

export function toLogFields(
  { webhook, entry, request }: Answered,
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

/** What a decision has to say beside its outcome; undefined when that is all, as of most that allow. */
export function detailOf(decision: Decision): object | undefined {
  switch (decision.kind) {
    case 'allow': {
      const { patch, warnings, auditAnnotations } = decision;
      const hasAudit = Object.keys(auditAnnotations).length > 0;
      if (patch.length + warnings.length === 0 && !hasAudit) return undefined;
      return {
        ...(patch.length > 0 ? { patched: patch.map(({ path }) => path) } : {}),
        ...(warnings.length > 0 ? { warnings } : {}),
        ...(hasAudit ? { audit: auditAnnotations } : {}),
      };
    }
    case 'deny':
      return { reason: decision.reason, message: decision.message };
    case 'retry':
      return { message: decision.message, ...(decision.cause === undefined ? {} : { err: decision.cause }) };
  }
}
