/** On every webhook replica: whether the Service of Gatehouse exists. The leader issues the serving certificate for it. */
import { services } from '../kube/well-known.ts';
import type { Context } from './context.ts';
import { watch } from './watch.ts';
import { missingService } from './webhooks/first-installation.ts';

export function watchOwnService(context: Context, signal: AbortSignal) {
  const { namespace, service } = context.config;
  const fieldSelector = `metadata.name=${service}`;
  const { hasSynced, store } = watch(
    context,
    { resource: services, namespace, fieldSelector, metadataOnly: true },
    signal,
  );
  return {
    problem: (): string | undefined =>
      hasSynced() && store.list().length === 0 ? missingService({ namespace, service }) : undefined,
  };
}
