-- Why a rep is outside all shifts at a moment, in the word that explanations and reports use; null inside of one. A rep's
-- shifts never overlap: the one that ends next has begun, or none has.
CREATE OR REPLACE FUNCTION off_because(r routing_rep, p_now timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN (SELECT lower(s.during) <= p_now FROM routing_shift s
               WHERE s.rep_id = r.id AND upper(s.during) > p_now ORDER BY upper(s.during) LIMIT 1) THEN NULL
        WHEN EXISTS (SELECT FROM routing_timeoff o
                      WHERE o.rep_id = r.id AND o.back_on > d.day AND o.first_day <= d.day) THEN 'time off'
        WHEN EXISTS (SELECT FROM routing_holiday h
                      WHERE h.country = r.holiday_country AND h.region = r.holiday_region AND h.day = d.day
                        AND h.observed) THEN 'holiday'
        ELSE 'off hours' END
      FROM (SELECT (p_now AT TIME ZONE r.zone)::date AS day) d
$$;
