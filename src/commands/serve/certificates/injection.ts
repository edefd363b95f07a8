/** Leader: the CA bundle in the objects that ask for it. */
import { createInjector } from '../../../controllers/injector.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { KubeObject, Resource } from '../../../kube/object.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../../kube/well-known.ts';
import type { WebhookConfiguration } from '../../../pki/injection.ts';
import type { CertificatePem } from '../../../pki/pem.ts';
import type { Context } from '../context.ts';
import { startController } from '../controller.ts';
import { watch } from '../watch.ts';
import type { Derived } from './derived.ts';

/** The field manager that owns caBundle fields, and only those. */
const INJECTION_MANAGER = 'gatehouse-cabundle';

type Bundle = () => CertificatePem | undefined;

export function startInjection(
  context: Context & { readonly client: KubeClient },
  bundle: Bundle,
  signal: AbortSignal,
): Derived {
  const injectors = [mutatingWebhookConfigurations, validatingWebhookConfigurations].map((resource) =>
    startInjector(context, resource, bundle, signal),
  );
  return {
    resync: () => {
      for (const { resync } of injectors) resync();
    },
    stopped: Promise.all(injectors.map(({ stopped }) => stopped)),
  };
}

function startInjector(context: Context, resource: Resource, bundle: Bundle, signal: AbortSignal): Derived {
  const controller = startController(
    context,
    {
      name: `injector-${resource.resource}`,
      reconcile: createInjector({
        configuration: (name) => watched.store.get(name),
        bundle,
        apply: async ({ name, resourceVersion }, webhooks, waiting) => {
          const object: KubeObject & { readonly webhooks: typeof webhooks } = {
            metadata: { name, ...(resourceVersion === undefined ? {} : { resourceVersion }) },
            webhooks,
          };
          await context.client.apply(resource, object, {
            fieldManager: INJECTION_MANAGER,
            force: true,
            signal: waiting,
          });
        },
        log: context.log,
      }),
    },
    signal,
  );
  const watched = watch<WebhookConfiguration>(context, { resource, onChange: controller.add }, signal);
  return {
    resync: () => {
      for (const key of watched.store.keys()) controller.add(key);
    },
    stopped: controller.stopped,
  };
}
