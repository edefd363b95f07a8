/** Whether RBAC lets Gatehouse do what it has to. */
import { groupResourceName } from '../../../../json/kube-object.ts';
import { missingAccessMessage } from '../../../../runtime/policies/read-access.ts';
import type { AccessQuestion } from '../../../../kube/access.ts';
import type { Evidence } from '../evidence.ts';
import { ok, orElse, problem, someOf, warning, type Finding } from '../finding.ts';
import type { GovernedKind } from '../governed-access.ts';
import { judgeLook } from '../look.ts';

const CHECK = 'access';
const GOVERNED = 'governed-kinds';

type Subject = Pick<Evidence, 'namespace' | 'serviceAccount'>;
const accountOf = ({ namespace, serviceAccount }: Subject) => `ServiceAccount ${namespace}/${serviceAccount}`;

export const checkAccess = (evidence: Subject & Pick<Evidence, 'access'>): readonly Finding[] =>
  judgeLook(CHECK, evidence.access, ({ asked, refused }) => {
    const account = accountOf(evidence);
    if (refused.length === 0) return [ok(CHECK, `the ${account} has all ${asked} permissions`)];
    if (refused.length === asked)
      return [
        problem(
          CHECK,
          `the ${account} has none of the ${asked} permissions: its bindings are gone, or Gatehouse runs as somebody else`,
          'kubectl apply -k deploy; or name the account: --namespace and --service-account',
        ),
      ];
    return [
      problem(CHECK, `the ${account} may not ${someOf(grouped(refused), 8)}`, 'kubectl apply -k deploy'),
    ];
  });

/** e.g. `get, list secrets`. */
function grouped(questions: readonly AccessQuestion[]): readonly string[] {
  const name = ({ group, resource, subresource, namespace }: AccessQuestion) =>
    groupResourceName({ group, resource }) +
    (subresource === undefined ? '' : `/${subresource}`) +
    (namespace === undefined ? '' : ` in ${namespace}`);
  return [...Map.groupBy(questions, name)].map(
    ([what, same]) => `${[...new Set(same.map(({ verb }) => verb))].join('/')} ${what}`,
  );
}

export const checkGovernedKinds = (evidence: Subject & Pick<Evidence, 'governed'>): readonly Finding[] =>
  judgeLook(GOVERNED, evidence.governed, ({ asked, refused }) => {
    const byPolicy = [...Map.groupBy(refused, ({ policy }) => policy)];
    return orElse(
      byPolicy.map(([policy, kinds]) => unreadable(evidence, policy, kinds)),
      ok(GOVERNED, `the ${accountOf(evidence)} may read the ${asked} kinds of all policies`),
    );
  });

function unreadable(subject: Subject, policy: string, kinds: readonly GovernedKind[]): Finding {
  const names = someOf(kinds.map(groupResourceName));
  const next = missingAccessMessage(policy, kinds);
  return kinds.some(({ needed }) => needed)
    ? problem(
        GOVERNED,
        `the ${accountOf(subject)} may not read ${names}: the policy ${policy} needs them`,
        next,
      )
    : warning(GOVERNED, `what is stored of ${names} is not audited by the policy ${policy}`, next);
}
