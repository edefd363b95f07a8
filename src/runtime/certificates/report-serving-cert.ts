/** Events, log lines and metrics about the cert of a Service. */
import type { IssueReason } from '../../pki/serving-certs/plan.ts';
import type { Reminders } from '../controller.ts';
import type { RepairResult } from './repair-secret.ts';
import { explain, regardingService, type Explanation } from './serving-cert-events.ts';
import type { ServingCertsContext, ServingCertTask } from './serving-cert-task.ts';

type Reporting = Pick<ServingCertsContext, 'observe' | 'record' | 'log'> & { readonly reminders: Reminders };

export function report(
  task: ServingCertTask,
  done: Exclude<RepairResult, { kind: 'refused' }>,
  reporting: Reporting,
): void {
  const { observe, record, log } = reporting;
  const { key, identity, request } = task;
  const { secretName, purpose } = request;
  if (done.kind === 'issued') {
    observe('issued', done.reason);
    log.info({ key, secret: secretName, reason: done.reason }, `issued ${purpose} cert`);
    const reason = eventReasonOf(done.reason);
    const message = `${purpose} cert in secret ${secretName} (${done.reason})`;
    if (reason !== undefined)
      record({ regarding: regardingService(identity), type: 'Normal', reason, message });
  } else if (done.kind === 'updated') {
    log.info({ key, secret: secretName, reason: done.plan.kind }, 'updated serving secret');
  }
  if (done.missing !== undefined) warn(task, explain(done.missing, request), reporting);
}

/** Reports the state of a Service. Returns whether an Event was recorded now. */
export function warn(
  { key, identity, now }: Pick<ServingCertTask, 'key' | 'identity' | 'now'>,
  { reason, message }: Explanation,
  { reminders, record }: Pick<Reporting, 'reminders' | 'record'>,
): boolean {
  const isDue = reminders.isDue(key, `${identity.uid} ${reason} ${message}`, now);
  if (isDue) record({ regarding: regardingService(identity), type: 'Warning', reason, message });
  return isDue;
}

/** Undefined for a rotation, which would record an Event for each of ten thousand Services. */
function eventReasonOf(reason: IssueReason): 'Renewed' | 'Issued' | undefined {
  if (reason === 'SignerChanged') return undefined;
  return reason === 'RenewalDue' ? 'Renewed' : 'Issued';
}
