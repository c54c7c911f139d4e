-- Have the CRM know of a mail that was sent, as a completed task of the lead (outreach/moves/activities.py): put it into
-- the outbox, inside the caller's transaction. The settlement calls it for campaigns whose mails are logged.
--
-- The task's key is the message's number and the campaign's launch: one message is one task, whoever says again that it
-- went; and a database that was restored, and counts from the same numbers, does not write over tasks of mails that it
-- forgot. The day is that of the try, by the campaign's clock: that it went may be found out later. It is in the hand of
-- the lead's rep, where the lead has one and that one a CRM user; else the org takes Rota's own user.
--
-- Only for a lead that the CRM was or will be told of, whose record comes first: of one that waits for its first rep the
-- try is marked, and the task follows when it has one. Returns whether the task is in the outbox.
CREATE OR REPLACE FUNCTION outreach_log_activity(p_attempt bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    facts record;
BEGIN
    SELECT attempt.message_id, attempt.mail_id, attempt.subject, attempt.begun_at, campaign.name, campaign.zone,
           campaign.launched_at, step."order", enrolment.address, lead.uid, lead.first_assigned_at, rep.crm_user_id
      INTO facts
      FROM outreach_sendattempt attempt
      JOIN outreach_message message ON message.id = attempt.message_id
      JOIN outreach_campaign campaign ON campaign.id = message.campaign_id
      JOIN outreach_step step ON step.id = message.step_id
      JOIN outreach_enrolment enrolment ON enrolment.id = message.enrolment_id
      JOIN routing_lead lead ON lead.id = enrolment.lead_id
      LEFT JOIN routing_assignment current ON current.lead_id = lead.id AND current.ended_at IS NULL
      LEFT JOIN routing_membership membership ON membership.id = current.membership_id
      LEFT JOIN routing_rep rep ON rep.id = membership.rep_id
     WHERE attempt.id = p_attempt;
    IF facts.first_assigned_at IS NULL THEN
        UPDATE outreach_sendattempt SET activity_owed = true WHERE id = p_attempt;
        RETURN false;
    END IF;
    PERFORM outbox_enqueue(
        'Task', ARRAY[format('mail-%s-%s', facts.message_id, extract(epoch FROM facts.launched_at)::bigint)],
        ARRAY[jsonb_strip_nulls(jsonb_build_object(
            'subject', 'Email: ' || coalesce(nullif(facts.subject, ''), format('%s, mail %s', facts.name, facts."order")),
            'due_on', (facts.begun_at AT TIME ZONE facts.zone)::date, 'status', 'Completed', 'kind', 'Email',
            'description', format(E'Mail %s of the campaign "%s", sent to %s.', facts."order", facts.name, facts.address),
            'owner', nullif(facts.crm_user_id, ''), 'campaign', facts.name, 'step', facts."order",
            'message_id', facts.mail_id))],
        ARRAY[jsonb_build_array(
            jsonb_build_object('relation', 'Who', 'object', 'Lead', 'external_id', facts.uid))],
        1::smallint);
    UPDATE outreach_sendattempt SET activity_owed = false WHERE id = p_attempt AND activity_owed;
    RETURN true;
END $$;
