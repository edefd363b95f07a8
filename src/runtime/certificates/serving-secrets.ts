/** Serving Secrets and their Services, read from the API server and written with care. */
import { ApiError, isAlreadyExists, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets, services } from '../../kube/well-known.ts';
import type { ServingCertsDeps } from './serving-certs.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import { CLUSTER_ROLE, refusable } from '../write-refused.ts';

type ServingSecretAccess = Pick<
  ServingCertsDeps,
  'readSecret' | 'createSecret' | 'replaceSecret' | 'deleteSecret' | 'readService' | 'annotateService'
>;

export function servingSecretsOf(client: KubeClient): ServingSecretAccess {
  return {
    readSecret: (namespace, name, signal) => client.get<Secret>(secrets, { namespace, name }, { signal }),
    createSecret: (secret, signal) =>
      refusable(CLUSTER_ROLE, async () => {
        try {
          return await client.create(secrets, secret, { signal });
        } catch (error) {
          if (isAlreadyExists(error)) return 'exists';
          if (isNamespaceEnding(error)) return 'namespace-ends';
          throw error;
        }
      }),
    replaceSecret: (secret, signal) =>
      refusable(CLUSTER_ROLE, () => client.replace(secrets, secret, { signal })),
    deleteSecret: ({ metadata = {} }, signal) => {
      const { namespace, name = '', uid, resourceVersion } = metadata;
      return refusable('deploy/components/delete-secrets', () =>
        client.delete(secrets, { namespace, name }, { signal, preconditions: { uid, resourceVersion } }),
      );
    },
    readService: (namespace, name, signal) => client.get<Service>(services, { namespace, name }, { signal }),
    annotateService: ({ metadata = {} }, annotations, signal) => {
      const { namespace, name = '', resourceVersion } = metadata;
      return refusable('deploy/components/openshift-compat', () =>
        client.patchMerge(
          services,
          { namespace, name },
          { metadata: { resourceVersion, annotations } },
          { signal },
        ),
      );
    },
  };
}

/** 403 with this cause while the namespace is being deleted, 404 once it is gone. */
function isNamespaceEnding(error: unknown): boolean {
  if (isNotFound(error)) return true;
  return error instanceof ApiError && error.causes.some(({ reason }) => reason === 'NamespaceTerminating');
}
