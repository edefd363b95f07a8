/** On the leader: reports Secrets whose annotations of Gatehouse have no effect. No watch covers all Secrets. */
import { sleep, systemClock } from '../../kube/clock.ts';
import { withKind } from '../../kube/object.ts';
import { secrets } from '../../kube/well-known.ts';
import { annotationProblem } from '../../pki/annotations.ts';
import { type LeaderContext, regarding } from '../controller.ts';
import { listIn } from '../namespaces.ts';

/** Kubernetes deletes Events after an hour. */
const CHECK_EVERY_MS = 55 * 60_000;
const MAX_REPORTED = 100;

export async function reportIgnoredAnnotations(context: LeaderContext, signal: AbortSignal): Promise<void> {
  const { client, config, record, log } = context;
  while (!signal.aborted) {
    try {
      const all = await listIn(client, secrets, config.namespaces, { metadataOnly: true, signal });
      const found = all.flatMap((secret) => {
        const message = annotationProblem('Secret', secret.metadata?.annotations);
        return message === undefined ? [] : [{ regarding: regarding(withKind(secrets, secret)), message }];
      });
      for (const one of found.slice(0, MAX_REPORTED))
        record({ ...one, type: 'Warning', reason: 'AnnotationIgnored' });
    } catch (err) {
      signal.throwIfAborted();
      log.warn({ err }, 'could not look for annotations of Secrets that have no effect');
    }
    await sleep(systemClock, CHECK_EVERY_MS, signal);
  }
}
