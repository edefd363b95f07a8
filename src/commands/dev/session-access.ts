/** What a session on a laptop reads and writes in the API server, as the user of the kubeconfig. */
import { WEBHOOK_CONFIGURATION_NAME, webhookConfigurations } from '../../admission/webhook-configurations.ts';
import type { LentConfiguration } from '../../admission/dev-entries.ts';
import type { ConfigMap } from '../../controllers/ca-bundle.ts';
import type { DevSessionDeps } from '../../controllers/dev-session.ts';
import { isConflict } from '../../kube/api-error.ts';
import {
  configMaps,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../../kube/well-known.ts';
import { CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import { isEnabled } from '../../restore/detector.ts';
import type { Context } from '../serve/context.ts';
import type { ReplicaParts } from '../serve/replica.ts';

const CONFIGURATIONS = {
  mutatingwebhookconfigurations: mutatingWebhookConfigurations,
  validatingwebhookconfigurations: validatingWebhookConfigurations,
} as const;

type Access = Pick<
  DevSessionDeps,
  'desired' | 'serviceBundle' | 'read' | 'create' | 'replace' | 'remove' | 'isConflict'
>;

export function sessionAccess(
  { client, config, capabilities, log }: Context,
  { registry, handlers, detectors }: Pick<ReplicaParts, 'registry' | 'handlers' | 'detectors'>,
): Access {
  const { namespace, service, servicePort } = config;
  return {
    desired: (serviceBundle = '') => {
      const { mutating, validating } = webhookConfigurations(
        registry.inForce(),
        {
          service: { namespace, name: service, port: servicePort },
          ownNamespace: namespace,
          matchConditions: capabilities.matchConditions,
          guardsOwnKinds: true,
          caBundle: serviceBundle,
          restorers: detectors.store
            .list()
            .filter(isEnabled)
            .flatMap(({ spec }) => spec.principals),
        },
        handlers.all,
      );
      return { mutatingwebhookconfigurations: mutating, validatingwebhookconfigurations: validating };
    },
    serviceBundle: async (signal) => {
      try {
        const ref = { namespace, name: CABUNDLE_CONFIGMAP };
        const bundle = (await client.get<ConfigMap>(configMaps, ref, { signal }))?.data?.[CA_BUNDLE_KEY];
        return bundle === undefined || bundle === '' ? undefined : Buffer.from(bundle).toString('base64');
      } catch (err) {
        signal.throwIfAborted();
        log.warn(
          { err },
          'could not read the CA bundle of the cluster: entries go back with the one they had',
        );
        return undefined;
      }
    },
    read: (resource, signal) =>
      client.get<LentConfiguration>(
        CONFIGURATIONS[resource],
        { name: WEBHOOK_CONFIGURATION_NAME },
        { signal },
      ),
    create: (resource, object, signal) => client.create(CONFIGURATIONS[resource], object, { signal }),
    replace: (resource, object, signal) => client.replace(CONFIGURATIONS[resource], object, { signal }),
    remove: (resource, { metadata: { uid, resourceVersion } = {} }, signal) =>
      client.delete(
        CONFIGURATIONS[resource],
        { name: WEBHOOK_CONFIGURATION_NAME },
        { preconditions: { uid, resourceVersion }, signal },
      ),
    isConflict,
  };
}
