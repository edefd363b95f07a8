/** The handlers in TypeScript: each has an entry in the webhook configurations of Gatehouse. */
import { handlerOfEntry } from '../../../../admission/handlers/compile-handler.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import type { ClusterReadings } from '../../read-cluster/read-cluster.ts';
import { valueOf } from '../../read-cluster/reading.ts';

export interface HandlerRow {
  readonly name: string;
  readonly mutates: boolean;
  readonly validates: boolean;
}

export function handlersIn({ targets }: Pick<ClusterReadings, 'targets'>): readonly HandlerRow[] {
  const namesIn = (kind: string): ReadonlySet<string> =>
    new Set(
      targets
        .filter((reading) => reading.kind.kind === kind)
        .flatMap(({ objects }) => valueOf(objects) ?? [])
        .filter(({ metadata }) => metadata?.name === WEBHOOK_CONFIGURATION_NAME)
        .flatMap(({ webhooks = [] }) => webhooks)
        .flatMap(({ name }) => handlerOfEntry(name.split('.')[0] ?? '') ?? []),
    );
  const mutating = namesIn('MutatingWebhookConfiguration');
  const validating = namesIn('ValidatingWebhookConfiguration');
  return [...new Set([...mutating, ...validating])]
    .toSorted()
    .map((name) => ({ name, mutates: mutating.has(name), validates: validating.has(name) }));
}
