import { DEPLOYMENT } from './messages-apps.ts';
import { CONFIG_MAP, NAMESPACE, SECRET, SERVICE, SERVICE_ACCOUNT } from './messages-core.ts';
import { DELETE_OPTIONS } from './messages-meta.ts';
import { POD_DISRUPTION_BUDGET } from './messages-policy.ts';
import { CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING } from './messages-rbac.ts';
import {
  SELF_SUBJECT_ACCESS_REVIEW,
  SELF_SUBJECT_REVIEW,
  SELF_SUBJECT_RULES_REVIEW,
  TOKEN_REQUEST,
} from './messages-reviews.ts';
import type { Message } from './wire.ts';

/**
 * What kubectl writes in protobuf and in no other way: the objects of `kubectl create KIND`, `kubectl auth` and
 * `kubectl create token`, with the fields that those commands can set. All its other commands write JSON.
 */
const MESSAGES = {
  v1: {
    ConfigMap: CONFIG_MAP,
    Namespace: NAMESPACE,
    Secret: SECRET,
    Service: SERVICE,
    ServiceAccount: SERVICE_ACCOUNT,
  },
  'apps/v1': { Deployment: DEPLOYMENT },
  'authentication.k8s.io/v1': { SelfSubjectReview: SELF_SUBJECT_REVIEW, TokenRequest: TOKEN_REQUEST },
  'authorization.k8s.io/v1': {
    SelfSubjectAccessReview: SELF_SUBJECT_ACCESS_REVIEW,
    SelfSubjectRulesReview: SELF_SUBJECT_RULES_REVIEW,
  },
  'policy/v1': { PodDisruptionBudget: POD_DISRUPTION_BUDGET },
  'rbac.authorization.k8s.io/v1': {
    ClusterRole: CLUSTER_ROLE,
    ClusterRoleBinding: CLUSTER_ROLE_BINDING,
    Role: ROLE,
    RoleBinding: ROLE_BINDING,
  },
} satisfies Readonly<Record<string, Readonly<Record<string, Message>>>>;

const BY_KIND: ReadonlyMap<string, Message> = new Map(
  Object.entries(MESSAGES).flatMap(([apiVersion, kinds]) =>
    Object.entries(kinds).map(([kind, message]) => [`${apiVersion}/${kind}`, message] as const),
  ),
);

/** The message that holds objects of a kind; undefined when the sandbox has no table for it. */
export function messageOf(apiVersion: string, kind: string): Message | undefined {
  // A client writes these in the version of whatever it deletes.
  return kind === 'DeleteOptions' ? DELETE_OPTIONS : BY_KIND.get(`${apiVersion}/${kind}`);
}
