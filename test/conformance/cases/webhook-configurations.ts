/** Validation of webhook configurations. */
import type { Api } from '../api.ts';
import { group } from '../case.ts';
import { upToColon, without } from '../wording.ts';

/** The answer to a configuration with these fields. */
const configured =
  (entry: (api: Api) => object, kind = 'validating') =>
  async (api: Api) => {
    await api.create(`/apis/admissionregistration.k8s.io/v1/${kind}webhookconfigurations?dryRun=All`, {
      metadata: { name: api.id },
      webhooks: [entry(api)].flat(),
    });
  };

const URL = { url: 'https://hooks.example.com/x' };

const plain = (changes: object = {}) => ({
  name: 'hook.example.com',
  clientConfig: URL,
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
  rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
  ...changes,
});

export const webhookConfigurations = group('webhook configurations', {
  'defaults of a validating one are filled in': configured(() => plain()),
  'defaults of a mutating one are filled in': configured(() => plain(), 'mutating'),
  'a Service has defaults': configured(() =>
    plain({ clientConfig: { service: { namespace: 'a', name: 'b' } } }),
  ),
  'side effects may not be unknown': configured(() => plain({ sideEffects: 'Unknown' })),
  'side effects are required': configured(() => plain({ sideEffects: undefined })),
  'a review version is required': configured(() => plain({ admissionReviewVersions: [] })),
  'at least one review version must be supported': configured(() =>
    plain({ admissionReviewVersions: ['v9'] }),
  ),
  'a caBundle is base64': {
    run: configured(() => plain({ clientConfig: { ...URL, caBundle: 'not base64!' } })),
    normalise: upToColon,
  },
  'names must be unique': configured(() => [plain(), plain()]),
  'a name is qualified': configured(() => plain({ name: 'hook' })),
  'a client is a URL or a Service': configured(() => plain({ clientConfig: {} })),
  'a client cannot have both a URL and a Service': configured(() =>
    plain({ clientConfig: { ...URL, service: { namespace: 'a', name: 'b' } } }),
  ),
  'a URL is https': configured(() => plain({ clientConfig: { url: 'http://hooks.example.com' } })),
  'a timeout is from 1 to 30 s': configured(() => plain({ timeoutSeconds: 31 })),
  'a failurePolicy has two values': configured(() => plain({ failurePolicy: 'Maybe' })),
  'a matchPolicy has two values': configured(() => plain({ matchPolicy: 'Nearly' })),
  'a rule names operations, groups, versions and resources': configured(() => plain({ rules: [{}] })),
  'a star of operations stands alone': configured(() =>
    plain({
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['*', 'CREATE'], resources: ['pods'] }],
    }),
  ),
  'an operation is one of four': configured(() =>
    plain({ rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['READ'], resources: ['pods'] }] }),
  ),
  'a selector has known operators': configured(() =>
    plain({ objectSelector: { matchExpressions: [{ key: 'a', operator: 'Like', values: ['b'] }] } }),
  ),
  'a reinvocationPolicy has two values': configured(
    () => plain({ reinvocationPolicy: 'Always' }),
    'mutating',
  ),
  'a rule for reviews has no effect, which a warning says': {
    since: '1.37', // the gate ExcludeAdmissionWebhookVirtualResources
    run: configured(() =>
      plain({
        rules: [
          {
            apiGroups: ['authorization.k8s.io', 'authentication.k8s.io'],
            apiVersions: ['v1'],
            operations: ['CREATE'],
            resources: ['subjectaccessreviews', 'tokenreviews'],
          },
        ],
      }),
    ),
  },
  'a name may not end as those of manifests of the API server': {
    since: '1.37', // the gate ManifestBasedAdmissionControlConfig
    run: async (api) => {
      for (const resource of [
        'mutatingwebhookconfigurations',
        'validatingadmissionpolicies',
        'mutatingadmissionpolicybindings',
      ])
        await api.create(`/apis/admissionregistration.k8s.io/v1/${resource}?dryRun=All`, {
          metadata: { name: `${api.id}.static.k8s.io` },
        });
    },
    normalise: (transcript) =>
      transcript.map((exchange) =>
        JSON.stringify(exchange).includes('names ending with \\".static.k8s.io\\" are reserved'),
      ),
  },
  'a matchCondition that does not compile is rejected': {
    run: configured(() => plain({ matchConditions: [{ name: 'a', expression: 'object.' }] })),
    normalise: without(/(?<=compilation failed: ).*/s), // the words of cel-go's parser
  },
});
