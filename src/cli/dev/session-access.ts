/** What a development session reads and writes in the API server, as the user of the kubeconfig. */
import { webhookConfigurations } from '../../admission/webhooks/webhook-configurations.ts';
import type { ConfigMap } from '../../runtime/certificates/ca-bundle.ts';
import type { DevSessionOptions } from '../../runtime/webhooks/dev-session.ts';
import { configMaps } from '../../kube/well-known.ts';
import { CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import type { Context } from '../../runtime/context.ts';
import type { Replica } from '../../runtime/webhook-process.ts';
import { configurationTarget, restorersOf } from '../../runtime/webhooks/webhook-configurations.ts';

export function sessionAccess(
  context: Context,
  { registry, handlers, detectors }: Pick<Replica, 'registry' | 'handlers' | 'detectors'>,
): Pick<DevSessionOptions, 'desired' | 'serviceBundle'> {
  const { client, config, log } = context;
  return {
    desired: (serviceBundle = '') => {
      const { mutating, validating } = webhookConfigurations(
        registry.inForce(),
        { ...configurationTarget(context), caBundle: serviceBundle, restorers: restorersOf(detectors.store) },
        handlers.all,
      );
      return { mutatingwebhookconfigurations: mutating, validatingwebhookconfigurations: validating };
    },
    serviceBundle: async (signal) => {
      try {
        const ref = { namespace: config.namespace, name: CABUNDLE_CONFIGMAP };
        const bundle = (await client.get<ConfigMap>(configMaps, ref, { signal }))?.data?.[CA_BUNDLE_KEY];
        return bundle === undefined || bundle === '' ? undefined : Buffer.from(bundle).toString('base64');
      } catch (err) {
        signal.throwIfAborted();
        log.warn(
          { err },
          'could not read the CA bundle of the cluster: entries are restored with their previous bundle',
        );
        return undefined;
      }
    },
  };
}
