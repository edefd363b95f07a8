// Recorded from Kubernetes v1.30.14 and v1.37.2 by scripts/record-subresources.ts: do not edit.

/**
 * What requests for the subresources of built-in kinds change: the operation, whether they carry the object's own kind, the
 * fields, and the subresources. `bindings` are of Pods.
 */
export const RECORDED_SUBRESOURCES = `\
UPDATE own metadata.annotations metadata.finalizers metadata.labels metadata.ownerReferences spec.finalizers:
  namespaces/finalize
UPDATE own metadata.annotations metadata.finalizers metadata.labels metadata.ownerReferences:
  namespaces/status nodes/status persistentvolumeclaims/status persistentvolumes/status
  replicationcontrollers/status resourcequotas/status services/status daemonsets.apps/status
  replicasets.apps/status statefulsets.apps/status horizontalpodautoscalers.autoscaling/status
  cronjobs.batch/status jobs.batch/status certificatesigningrequests.certificates.k8s.io/approval
  certificatesigningrequests.certificates.k8s.io/status ingresses.networking.k8s.io/status
  poddisruptionbudgets.policy/status customresourcedefinitions.apiextensions.k8s.io/status
nothing:
  nodes/proxy pods/attach pods/exec pods/log pods/portforward pods/proxy serviceaccounts/token services/proxy
  apiservices.apiregistration.k8s.io/status podcertificaterequests.certificates.k8s.io/status
  servicecidrs.networking.k8s.io/status csinodes.storage.k8s.io/status volumeattachments.storage.k8s.io/status
  validatingadmissionpolicies.admissionregistration.k8s.io/status devicetaintrules.resource.k8s.io/status
  resourceclaims.resource.k8s.io/status flowschemas.flowcontrol.apiserver.k8s.io/status
  prioritylevelconfigurations.flowcontrol.apiserver.k8s.io/status
  storageversionmigrations.storagemigration.k8s.io/status
CREATE other metadata.annotations metadata.labels spec.nodeName:
  bindings pods/binding
UPDATE own spec.ephemeralContainers:
  pods/ephemeralcontainers
CREATE other metadata.deletionTimestamp:
  pods/eviction
UPDATE own spec.containers.*.resources spec.initContainers.*.resources:
  pods/resize
UPDATE own metadata.annotations metadata.finalizers metadata.labels:
  pods/status
UPDATE other spec.replicas:
  replicationcontrollers/scale deployments.apps/scale replicasets.apps/scale statefulsets.apps/scale
UPDATE own metadata.annotations metadata.finalizers metadata.ownerReferences:
  deployments.apps/status
`;
