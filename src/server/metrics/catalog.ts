/** All metrics of Gatehouse. Times are seconds, dates are seconds since 1970. `metrics.ts` sets the values. */

export interface MetricDefinition<Type extends 'counter' | 'gauge' | 'histogram', L extends string> {
  readonly type: Type;
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly L[];
}

/** An admission review takes well under a millisecond; a live read adds a few. */
const REVIEW_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** For reviews of one object or of all objects of a kind, and for handlers with live reads. */
const LONG_BUCKETS = [...REVIEW_BUCKETS, 30];
const WORK_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60];
const DELAY_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5];
const HOUR = 3_600;
/** Expired, one hour, then days: from one day to the usual lifetimes and their thirds. */
const REMAINING_BUCKETS = [0, HOUR, ...[1, 3, 7, 14, 30, 60, 90, 365].map((days) => days * 24 * HOUR)];

const define =
  <const Type extends 'counter' | 'gauge'>(type: Type) =>
  <L extends readonly string[]>(name: string, help: string, ...labelNames: L) => ({
    type,
    name,
    help,
    labelNames,
  });
const counter = define('counter');
const gauge = define('gauge');
const histogram = <L extends readonly string[]>(
  name: string,
  help: string,
  buckets: number[],
  ...labelNames: L
) => ({ type: 'histogram' as const, name, help, buckets, labelNames });

// prettier-ignore
export const METRICS = {
  // The webhook port
  admission: histogram('gatehouse_admission_duration_seconds', 'How long an admission review took to answer, by webhook and outcome.', REVIEW_BUCKETS, 'webhook', 'operation', 'outcome'),
  conversion: histogram('gatehouse_conversion_duration_seconds', 'How long a conversion review took to answer, by CustomResourceDefinition and outcome.', LONG_BUCKETS, 'crd', 'outcome'),
  convertedObjects: counter('gatehouse_conversion_objects_total', 'Objects in conversion reviews, by CustomResourceDefinition and outcome.', 'crd', 'outcome'),
  handler: histogram('gatehouse_handler_duration_seconds', 'How long a handler took, by handler, webhook and outcome (allow, deny, retry, error, timeout).', LONG_BUCKETS, 'handler', 'webhook', 'outcome'),
  handlerFailures: counter('gatehouse_handler_failures_total', 'Failures of handlers, by handler and reason (exception, timeout, result, draft, read, unreadable, stray).', 'handler', 'reason'),
  /** @see https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/internal/controller/metrics/metrics.go */
  reconciles: counter('controller_runtime_reconcile_total', 'Passes of the controllers of users, by controller and result (success, requeue_after, error).', 'controller', 'result'),
  reconcileErrors: counter('controller_runtime_reconcile_errors_total', 'Failed passes of the controllers of users.', 'controller'),
  reconcileSeconds: histogram('controller_runtime_reconcile_time_seconds', 'How long a pass of a controller of users took.', LONG_BUCKETS, 'controller'),
  activeWorkers: gauge('controller_runtime_active_workers', 'Passes in progress, by controller of users.', 'controller'),
  mostWorkers: gauge('controller_runtime_max_concurrent_reconciles', 'The concurrency of a controller of users.', 'controller'),
  delayedObjects: gauge('gatehouse_controller_delayed_objects', 'Objects whose passes are delayed because each pass changes the same, by controller of users.', 'controller'),
  blockedDeletions: gauge('gatehouse_controller_blocked_deletions', 'Objects whose deletion takes longer than finalizeTimeoutSeconds, by controller of users.', 'controller'),
  droppedSeries: counter('gatehouse_controller_dropped_series_total', 'Writes to own metrics of controllers of users that would exceed 1,000 series of the metric.', 'controller'),
  stuckPasses: gauge('gatehouse_controller_stuck_passes', 'Passes that ignore their signal and did not return within their timeout, by controller of users: each blocks its object.', 'controller'),
  failingObjects: gauge('gatehouse_controller_failing_objects', 'Objects whose last pass failed, by controller of users.', 'controller'),
  stalledObjects: gauge('gatehouse_controller_stalled_objects', 'Objects that wait for a user, because the controller called "stall", by controller of users.', 'controller'),
  lastPass: gauge('gatehouse_controller_last_pass_seconds', 'When the last pass ended, by controller of users.', 'controller'),
  missingKinds: gauge('gatehouse_controller_missing_kinds', 'Kinds of watch, owns and watches that are not served or not readable, by controller of users.', 'controller'),
  rejectedRequests: counter('gatehouse_rejected_requests_total', 'Requests to the webhook port that were not admission reviews, by HTTP status.', 'code'),
  reviewsInFlight: gauge('gatehouse_admission_reviews_in_flight', 'Admission reviews in progress.'),
  refusedReviews: counter('gatehouse_admission_reviews_refused_total', 'Admission reviews answered with 429 because of overload, by the limit that was reached.', 'reason'),
  eventLoopDelay: histogram('gatehouse_event_loop_delay_seconds', 'The longest time within each second in which the event loop was blocked.', DELAY_BUCKETS),
  connections: gauge('gatehouse_webhook_connections', 'Open connections to the webhook port.'),
  crowdedOut: counter('gatehouse_webhook_connections_crowded_out_total', 'Connections to the webhook port that were closed because there were more than --max-connections.'),
  refusedClients: counter('gatehouse_clients_refused_total', 'Clients of the webhook port without a certificate that --client-ca and --client-names accept, by reason.', 'reason'),
  clientCaErrors: counter('gatehouse_client_ca_read_errors_total', 'Failed attempts to load the file of --client-ca.'),
  /** @see https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/certwatcher/metrics/metrics.go */
  certificateReads: counter('certwatcher_read_certificate_total', 'Reads of the serving certificate of the webhooks.'),
  certificateReadErrors: counter('certwatcher_read_certificate_errors_total', 'Reads of the serving certificate of the webhooks that failed.'),

  // The API server and the workqueues: the names of client-go
  apiRequests: histogram('rest_client_request_duration_seconds', 'How long requests to the API server took, by method and status.', REVIEW_BUCKETS, 'verb', 'code'),
  leader: gauge('leader_election_master_status', '1 while this replica holds the lease.', 'name'),
  /** @see https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/component-base/metrics/prometheus/workqueue/metrics.go */
  queueDepth: gauge('workqueue_depth', 'Keys waiting in the queue.', 'name'),
  queueAdds: counter('workqueue_adds_total', 'Keys added.', 'name'),
  queueRetries: counter('workqueue_retries_total', 'Keys added again after a failure.', 'name'),
  queueDuration: histogram('workqueue_queue_duration_seconds', 'How long a key waited.', WORK_BUCKETS, 'name'),
  workDuration: histogram('workqueue_work_duration_seconds', 'How long a reconcile took.', WORK_BUCKETS, 'name'),
  unfinishedWork: gauge('workqueue_unfinished_work_seconds', 'Time spent on reconciles that have not ended, in total.', 'name'),
  longestRunning: gauge('workqueue_longest_running_processor_seconds', 'How long the longest reconcile has been running.', 'name'),
  rollbacks: counter('gatehouse_rollbacks_detected_total', 'How often this replica detected that the cluster was restored to an earlier state, by evidence.', 'evidence'),
  clockSkew: gauge('gatehouse_clock_skew_seconds', 'How far the clock of this replica is ahead of the clock of the API server.'),

  // Certificates
  authorityNotAfter: gauge('gatehouse_serving_ca_not_after_seconds', 'When the root certificate of a generation expires.', 'generation', 'state'),
  authorityRetirement: gauge('gatehouse_serving_ca_retirement_seconds', 'When the root of a retiring generation is removed: restart before then what loads certificates only at start.', 'generation'),
  rotationPhase: gauge('gatehouse_rotation_phase', '1 for the current phase of the authority.', 'phase'),
  rotationPhaseSeconds: gauge('gatehouse_rotation_phase_seconds', 'How long the authority has been in its phase, as observed by this process.', 'phase'),
  authorityBroken: gauge('gatehouse_authority_broken', '1 while the stored authority cannot be used.', 'reason'),
  authorityRestored: counter('gatehouse_authority_restored_total', 'How often the last good copy of the authority was written back.'),
  issued: counter('gatehouse_issue_total', 'Attempts to issue a serving cert, by result (issued, refused, failed) and reason.', 'result', 'reason'),
  certRemaining: histogram('gatehouse_serving_leaf_not_after_seconds', 'Remaining lifetime of the serving certs: a snapshot, computed at each scrape.', REMAINING_BUCKETS),
  certGeneration: gauge('gatehouse_serving_leaf_generation', 'Serving certs by the generation of the authority that signed them; unknown: another signer.', 'generation'),
  certNotRenewed: gauge('gatehouse_serving_leaf_not_renewed', 'Serving certs in Secrets that Gatehouse has stopped renewing, by reason.', 'reason'),
  servedCerts: gauge('gatehouse_serving_endpoints', 'Endpoints of Services with a serving cert, by what they present: current (the leaf in the Secret), stale (another one for the Service), foreign (one for other names) or unreachable.', 'state'),
  workloadRestarts: counter('gatehouse_workload_restarts_total', 'Workloads with gatehouse.dev/restart-on-renewal whose pods presented an earlier certificate, by result: restarted, refused (see the Event) or unfinished (the rollout takes longer than ten minutes).', 'result'),
  reissueWaiting: gauge('gatehouse_serving_reissue_waiting', 'Serving certs in the queue to be issued again.'),
  secretsContended: gauge('gatehouse_serving_secrets_contended', 'Serving Secrets that another client keeps changing or deleting.'),
  caBundleTargets: gauge('gatehouse_cabundle_targets', 'Objects that request a CA bundle, by kind and state.', 'kind', 'state'),
  caBundleUnreadable: gauge('gatehouse_cabundle_unreadable_kinds', '1 for each kind that Gatehouse lacks permission to list, so that its objects do not get a CA bundle.', 'kind'),
  caBundleStale: gauge('gatehouse_cabundle_stale_seconds', 'The longest time that an object has been waiting for its CA bundle; 0 when all have it.'),

  // Policies and restores
  policyViolations: gauge('gatehouse_policy_violations', 'Violations among existing objects, by policy, as of its last audit.', 'policy'),
  sharedValues: gauge('gatehouse_shared_unique_values', 'Values that a policy declares unique but several objects have, by policy.', 'policy'),
  unsettledClaims: gauge('gatehouse_unsettled_unique_claims', 'UniqueClaims that this replica has written and whose objects it has not seen stored.'),
  refusedClaims: counter('gatehouse_unique_claims_refused_total', 'Requests that were refused because of too many unsettled UniqueClaims.'),
  deferred: counter('gatehouse_restore_deferred_total', 'Checks that were deferred because the requester restores a backup, or may defer them at any time, by policy.', 'policy'),
  existingAllowed: counter('gatehouse_existing_violations_allowed_total', 'Violated checks that updates passed, because the object already violated them and the policy has existingViolations: Allow, by policy.', 'policy'),
  windowOpen: gauge('gatehouse_restore_window_open', '1 for each open RestoreWindow.', 'window', 'source'),
  windowExpires: gauge('gatehouse_restore_window_expires_timestamp_seconds', 'When each open RestoreWindow expires, in seconds since 1970.', 'window'),
  restoreViolations: gauge('gatehouse_restore_violations', 'Violations that the last sweep of each RestoreWindow found and that still exist.', 'window'),
  sweepScanned: gauge('gatehouse_restore_sweep_scanned_objects', 'Objects that the sweep in progress of each RestoreWindow has read, by its phase: Reading or Confirming. Absent for short sweeps.', 'window', 'phase'),
  rehearsalProblems: gauge('gatehouse_restore_rehearsal_problems', 'Problems that the last scheduled rehearsal of a restore found.'),
  rehearsalNewProblems: gauge('gatehouse_restore_rehearsal_new_problems', 'Problems of the last scheduled rehearsal that the one before did not have.'),
  rehearsedAt: gauge('gatehouse_restore_rehearsal_timestamp_seconds', 'When the last scheduled rehearsal ended, in seconds since 1970. Before the first result: when its ConfigMap was created.'),
  rehearsedBackupAt: gauge('gatehouse_restore_rehearsal_backup_timestamp_seconds', 'When the backup of the last scheduled rehearsal was taken, in seconds since 1970.'),
};
