/** What RBAC lets the ServiceAccount of Gatehouse do. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import { mayUser, type AccessQuestion } from '../../../kube/access.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { KubeObject } from '../../../json/kube-object.ts';
import type { Access, GovernedAccess } from './evidence.ts';
import { governedKinds } from './governed-access.ts';
import { look, type Look } from './look.ts';
import { shippedAccess } from './shipped-access.ts';

export interface Asker {
  readonly client: Pick<KubeClient, 'create'>;
  readonly namespace: string;
  readonly serviceAccount: string;
}

const PERMISSION = { verb: 'create', resource: 'subjectaccessreviews.authorization.k8s.io' };
/** Some hundred short questions: more at a time would only queue in the API server. */
const AT_A_TIME = 8;

export async function gatherAccess(asker: Asker, manifests: readonly KubeObject[]): Promise<Look<Access>> {
  const questions = shippedAccess(manifests, asker.namespace);
  if (questions.length === 0)
    return {
      kind: 'failed',
      message: 'this program came without deploy/, in which stands what Gatehouse has to be allowed',
    };
  return await look(PERMISSION, async () => {
    const answers = await askAll(asker, questions);
    return { asked: questions.length, refused: questions.filter((_question, index) => !answers[index]) };
  });
}

export async function gatherGoverned(
  asker: Asker,
  policies: Look<readonly AdmissionPolicy[]>,
): Promise<Look<GovernedAccess>> {
  if (policies.kind !== 'seen') return policies;
  const kinds = governedKinds(policies.value);
  return await look(PERMISSION, async () => {
    const questions = kinds.flatMap((kind) =>
      READS.map((verb) => ({ kind, question: toQuestion(kind, verb) })),
    );
    const answers = await askAll(
      asker,
      questions.map(({ question }) => question),
    );
    const refused = new Set(questions.filter((_question, index) => !answers[index]).map(({ kind }) => kind));
    return { asked: kinds.length, refused: [...refused] };
  });
}

const READS = ['get', 'list', 'watch'];
const toQuestion = (
  { group, resource }: Pick<AccessQuestion, 'group' | 'resource'>,
  verb: string,
): AccessQuestion => ({ verb, group, resource });

/** In the order of the questions. */
async function askAll(
  { client, namespace, serviceAccount }: Asker,
  questions: readonly AccessQuestion[],
): Promise<readonly boolean[]> {
  const subject = {
    username: `system:serviceaccount:${namespace}:${serviceAccount}`,
    uid: '',
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
    extra: {},
  };
  const answers: boolean[] = [];
  for (let first = 0; first < questions.length; first += AT_A_TIME) {
    const some = questions.slice(first, first + AT_A_TIME);
    answers.push(...(await Promise.all(some.map((question) => mayUser(client, subject, question)))));
  }
  return answers;
}
