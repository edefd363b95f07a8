import { X509Certificate } from 'node:crypto';

import type { ApiObject } from '../../api-object.ts';
import { subdomainProblem } from '../../dns-names.ts';
import type { Cause } from '../../failure.ts';
import { spec, text } from '../../fields.ts';
import type { ResourceType } from '../../resource-type.ts';
import { invalidValue, tooLong } from '../../schema/causes.ts';
import { builtInKind } from '../built-in-kind.ts';
import { pathSegmentProblem } from '../name-problems.ts';
import { object, STRING, withDefault } from '../schema-builders.ts';

/** In characters. */
const MAX_TRUST_BUNDLE = 1024 * 1024;
const TRUST_BUNDLE = 'spec.trustBundle';
/** Like Go's PEM reader: text around the blocks is ignored. */
const BLOCK = /-----BEGIN (?<type>[^-\n]*)-----\r?\n(?<body>[^-]*)-----END \k<type>-----/g;

const signerOf = (bundle: ApiObject): string => text(spec(bundle), 'signerName');

/** certificates.k8s.io/v1 ClusterTrustBundle. The sandbox does not ask whether the author may attest for a signer. */
export const CLUSTER_TRUST_BUNDLE: ResourceType = builtInKind({
  apiVersion: 'certificates.k8s.io/v1',
  kind: 'ClusterTrustBundle',
  resource: 'clustertrustbundles',
  description: 'Root certificates that pods can mount.',
  fields: { spec: withDefault(object({ signerName: STRING, trustBundle: STRING }), {}) },
  columns: [{ name: 'SignerName', type: 'string', description: 'Whose roots they are.', value: signerOf }],
  selectableFields: { 'spec.signerName': signerOf },
  strategy: {
    nameProblem: pathSegmentProblem,
    validate: bundleProblems,
    validateUpdate: (bundle, old) =>
      signerOf(bundle) === signerOf(old)
        ? []
        : [invalidValue('spec.signerName', signerOf(bundle), 'field is immutable')],
  },
});

/** Follows ValidateClusterTrustBundle of pkg/apis/certificates/validation. */
function bundleProblems(bundle: ApiObject, old?: ApiObject): readonly Cause[] {
  const { name = '' } = bundle.metadata;
  const [signer, trusted] = [signerOf(bundle), text(spec(bundle), 'trustBundle')];
  const named = nameProblem(name, signer);
  const isUnchanged = old !== undefined && text(spec(old), 'trustBundle') === trusted;
  return [
    ...(named === undefined ? [] : [invalidValue('metadata.name', name, named)]),
    ...(/^(?:[^/]+\/[^/]+)?$/.test(signer)
      ? []
      : [
          invalidValue(
            'spec.signerName',
            signer,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
          ),
        ]),
    ...(isUnchanged ? [] : trustProblems(trusted)),
  ];
}

function nameProblem(name: string, signer: string): string | undefined {
  if (signer === '')
    return name.includes(':')
      ? 'ClusterTrustBundle without signer name must not have ":" in its name'
      : subdomainProblem(name);
  const prefix = `${signer.replaceAll('/', ':')}:`;
  return name.startsWith(prefix)
    ? subdomainProblem(name.slice(prefix.length))
    : `ClusterTrustBundle for signerName ${signer} must be named with prefix ${prefix}`;
}

function trustProblems(trusted: string): readonly Cause[] {
  if (trusted.length > MAX_TRUST_BUNDLE) return [tooLong(TRUST_BUNDLE, MAX_TRUST_BUNDLE)];
  const blocks = [...trusted.matchAll(BLOCK)].map(({ groups }) => groups ?? {});
  const broken = blocks.flatMap(({ type = '', body = '' }, index) => {
    const problem = blockProblem(type, body);
    return problem === undefined ? [] : [`entry ${index} ${problem}`];
  });
  return (broken.length > 0 ? broken : anchorProblems(blocks.map(({ body = '' }) => derOf(body)))).map(
    (problem) => invalidValue(TRUST_BUNDLE, '<value omitted>', problem),
  );
}

function blockProblem(type: string, body: string): string | undefined {
  if (type !== 'CERTIFICATE') return `has bad block type: ${type}`;
  if (body.includes(':')) return 'has PEM block headers';
  try {
    const { ca } = new X509Certificate(Buffer.from(body, 'base64'));
    return ca ? undefined : 'does not have the CA bit set';
  } catch {
    return 'does not parse as X.509';
  }
}

function anchorProblems(anchors: readonly string[]): readonly string[] {
  if (anchors.length === 0) return ['at least one trust anchor must be provided'];
  return [...Map.groupBy(anchors.keys(), (index) => anchors[index])].flatMap(([, indices]) =>
    indices.length > 1 ? [`duplicate trust anchor (indices [${indices.join(' ')}])`] : [],
  );
}

const derOf = (body: string): string => Buffer.from(body, 'base64').toString('base64');
