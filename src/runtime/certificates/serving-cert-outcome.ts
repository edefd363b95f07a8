/** Users of OpenShift's annotations look for the outcome on the Service. */
import { services } from '../../kube/well-known.ts';
import { openshiftServiceChange, type OpenshiftOutcome } from '../../pki/serving-certs/openshift.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import { refusable, WriteRefused } from '../write-refused.ts';
import { signerName, type ServingCertsContext, type ServingCertTask } from './serving-cert-task.ts';

export async function annotateSigned(task: ServingCertTask, context: ServingCertsContext): Promise<boolean> {
  if (task.request.via !== 'openshift') return true;
  const signedBy = signerName(task.authority);
  return await annotate(task.service, { kind: 'signed', signedBy }, context, task.signal);
}

/**
 * The cert is as good without the annotation: returns false if it is not written. The patch applies only to the
 * resourceVersion that was read; `null` removes an annotation.
 */
export async function annotate(
  service: Service,
  outcome: OpenshiftOutcome,
  { client, log }: ServingCertsContext,
  signal: AbortSignal,
): Promise<boolean> {
  const annotations = openshiftServiceChange(service.metadata?.annotations ?? {}, outcome);
  if (annotations === undefined) return true;
  const { namespace, name = '', resourceVersion } = service.metadata ?? {};
  const patch = { metadata: { resourceVersion, annotations } };
  try {
    await refusable('deploy/components/openshift-compat', () =>
      client.patchMerge(services, { namespace, name }, patch, { signal }),
    );
    return true;
  } catch (error) {
    if (!(error instanceof WriteRefused)) throw error;
    const key = `${namespace ?? ''}/${name}`;
    log.warn({ key, problem: error.message }, 'a Service is not annotated with the outcome of its request');
    return false;
  }
}
